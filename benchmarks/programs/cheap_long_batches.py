"""As ``cheap_batches``, with a step of 10 ms."""

from benchmarks.programs import cheap_batches

if __name__ == "__main__":
    cheap_batches.run(0.01)
