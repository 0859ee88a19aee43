"""Have the tests of services run that other environments skip.

usage: PYTHONPATH=. python -m tests.readers.check_service_tests DIRECTORY
"""

from tests.readers.reading import finish
from tests.readers.service_tests import tested

finish(
    tested(
        "services: clients",
        "tests of `import` and `export` against servers of ours",
        ("langfuse", "langsmith", "arize-phoenix-client"),
        *("tests/formats/services", "tests/exporters/test_services.py", "tests/cli/test_import_services.py"),
    )
)
