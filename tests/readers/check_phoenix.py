"""Have the tests of Phoenix run that other environments skip.

usage: PYTHONPATH=. python -m tests.readers.check_phoenix DIRECTORY
"""

from tests.readers.reading import finish
from tests.readers.service_tests import tested

finish(
    tested(
        "Phoenix: server and client",
        "tests of `import` against its real server",
        ("arize-phoenix", "arize-phoenix-client"),
        *("tests/formats/services/test_real_servers.py",),
    )
)
