"""What the tests of generated_calls.py are told."""


def pytest_addoption(parser):
    parser.addoption("--generator", choices=["openapi-python-client", "openapi-generator"], default="openapi-python-client",
                     help="whose clients generated_calls.py tries")
    parser.addoption("--document", help="another document than the server's own, to see what breaks")
