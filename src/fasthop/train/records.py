"""Records: what a training writes down as it goes: the journal, TensorBoard's files, and the lines themselves."""

from __future__ import annotations

from typing import Any

from fasthop.files import CannotWrite
from fasthop.train.journal import Journal, TensorBoard
from fasthop.train.run_folder import RunFolder


class Records:
    """history: the epochs' lines of this process. folder: None writes nothing. tensorboard: whether its files are written."""

    def __init__(self, folder: RunFolder | None, *, tensorboard: bool) -> None:
        self.history: list[dict[str, Any]] = []
        self._folder, self._tensorboard = folder, tensorboard
        self._journal = Journal(folder.metrics_path) if folder is not None else None
        self._board: TensorBoard | None = None

    def begin(self, header: dict[str, Any]) -> None:
        """A new journal. Raises CannotWrite."""
        self.history = []
        if self._journal is not None:
            self._journal.begin(header)
        self._open_board(0)

    def go_on_after(self, epoch: int) -> None:
        """The journal without what is of later epochs. Raises CannotWrite, and InvalidConfig where it is none."""
        self.history = [line for line in self.history if line["epoch"] <= epoch]
        if self._journal is not None:
            self._journal.continue_after(epoch)
        self._open_board(epoch)

    def epoch(self, line: dict[str, Any]) -> None:
        """An epoch's line. Raises CannotWrite."""
        self.history.append(line)
        self.event(line)
        if self._board is not None:
            self._board.write(line)

    def event(self, line: dict[str, Any]) -> None:
        """A line that is not an epoch's, for the journal alone. Raises CannotWrite."""
        if self._journal is not None:
            self._journal.write(line)

    def close(self) -> None:
        """Closes what is open; to be called more than once is fine."""
        for open_file in (self._journal, self._board):
            if open_file is not None:
                open_file.close()
        self._board = None

    def _open_board(self, epoch: int) -> None:
        if self._tensorboard and self._folder is not None:
            try:
                self._board = TensorBoard(self._folder.tensorboard_path, first_epoch=epoch + 1)
            except OSError as error:
                raise CannotWrite(f"TensorBoard's files cannot be written ({error}).") from None
