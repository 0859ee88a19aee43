"""`python -m trace_recorder` is `trace-recorder`."""

from trace_recorder.cli.entry import main

if __name__ == "__main__":
    main()
