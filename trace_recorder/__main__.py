"""`python -m trace_recorder` runs the command `trace-recorder`."""

from trace_recorder.cli.entry import main

if __name__ == "__main__":
    main()
