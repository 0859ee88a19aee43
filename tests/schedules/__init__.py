"""Random schedules of what agents do, and the judge that holds each document against its journal."""
