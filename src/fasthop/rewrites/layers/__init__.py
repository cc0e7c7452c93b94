"""PyG's layers over prepared matrices, one file a layer; `covered` in covered.py is their table."""
