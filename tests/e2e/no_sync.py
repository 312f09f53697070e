"""A training run whose engine keeps the base model's weights, for the test that the gap shows it."""

import sys

from adarl.launch import prepare_environment
from adarl.train import main

if __name__ == "__main__":
    prepare_environment()
    import adarl.engine

    adarl.engine.VllmEngine.load_weights = lambda self, weights: [None for _ in weights] and None
    sys.exit(main())
