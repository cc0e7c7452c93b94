"""ExactOptions: which of the exact rungs a fast model is built with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fasthop.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactOptions:
    """The exact rungs by name, each on or off. Every one but `cache_norm` alone implies what `cache_norm` does:
    a prepared matrix carries its values."""

    cache_norm: bool = False
    csr_spmm: bool = False
    sparse_features: bool = False
    first_hop: bool = False
    receptive_field: bool = False
    transform_order: bool = False
    reorder_nodes: bool = False

    @classmethod
    def all(cls) -> ExactOptions:
        """Every rung on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def of(cls, *names: str) -> ExactOptions:
        """The rungs of these names on. Raises InvalidConfig for an unknown one."""
        known = [field.name for field in fields(cls)]
        for name in names:
            if name not in known:
                raise InvalidConfig(f"There is no exact rung named {name!r}; there are {', '.join(known)}.")
        return cls(**dict.fromkeys(names, True))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rungs that are on."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name))
