"""The deterministic simulator: the production pieces on virtual clocks and a disk that crashes.

`run.simulate(seed)` is one whole life of a machine; the same seed is the same life. What must
hold is in `witness`; what may go wrong is in `odds`; `docs/simulation.md` is the tour.
"""
