"""See `benchmarks.suites.measure`."""

from benchmarks.suites.measure import main

if __name__ == "__main__":
    main()
