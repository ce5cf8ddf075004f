"""Counter-based draws (semantics 1.2): no state, so no sampler changes another's numbers."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from emunet._core.types cimport GOLDEN, Sim


cdef inline uint64_t mix64(uint64_t x) noexcept nogil:
    """Finaliser of splitmix64 (Stafford's variant 13)."""
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline uint64_t purpose_key(uint64_t seed, uint64_t purpose) noexcept nogil:
    """Key of all draws for one purpose; semantics 1.2 numbers the purposes."""
    return mix64(seed + purpose * GOLDEN)


cdef inline uint64_t draw(uint64_t key, uint64_t a, uint64_t b) noexcept nogil:
    """64 random bits: draw b of entity a."""
    return mix64(mix64(key ^ a) + b * GOLDEN)


cdef inline double draw_unit(uint64_t key, uint64_t a, uint64_t b) noexcept nogil:
    """A number in [0, 1): 53 bits times 2^-53."""
    return <double>(draw(key, a, b) >> 11) * 1.1102230246251565e-16


cdef inline bint tie_before(Sim* sim, int64_t node, int64_t time_ps, int64_t a,
                            int64_t b) noexcept nogil:
    """Whether port a of a node goes before its port b at one instant."""
    cdef uint64_t base, x, y
    if not sim.ties_by_port:
        base = draw(sim.key_tie, <uint64_t>node, <uint64_t>time_ps)
        x = mix64(base + <uint64_t>a * GOLDEN)
        y = mix64(base + <uint64_t>b * GOLDEN)
        if x != y:
            return x < y
    return a < b


cdef inline uint32_t choose(uint64_t salt, uint32_t key, uint32_t dst, uint32_t n) noexcept nogil:
    """Hash choice among n ports: ECMP."""
    return <uint32_t>(((mix64(salt ^ ((<uint64_t>key << 32) | dst)) >> 32) * n) >> 32)
