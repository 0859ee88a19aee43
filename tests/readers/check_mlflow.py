"""Have the tests of MLflow run that other environments skip.

usage: PYTHONPATH=. python -m tests.readers.check_mlflow DIRECTORY
"""

from tests.readers.reading import finish
from tests.readers.service_tests import tested

finish(
    tested(
        "MLflow: server and client",
        "tests of `import` against its real server",
        ("mlflow",),
        *("tests/formats/services/test_real_servers.py",),
    )
)
