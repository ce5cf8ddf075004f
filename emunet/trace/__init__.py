"""The trace of a run: one HDF5 file, its schema, writer, reader and digest."""
