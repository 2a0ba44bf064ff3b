"""See `benchmarks.evidence.measure`."""

from benchmarks.evidence.measure import main

if __name__ == "__main__":
    main()
