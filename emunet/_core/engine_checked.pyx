include "engine.pyx"
