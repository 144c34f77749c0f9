"""The header Host, the target of a request and its path."""

from urllib.parse import unquote

import pytest

from regard.serving.api.errors import RequestError
from regard.serving.http.addresses import check_host, check_path, take_authority

GOOD = (
    "localhost",
    "localhost:",
    "LOCALHOST.:8000",
    "127.0.0.1:80",
    "127.0.0.1.",
    "[::1]",
    "[::1]:8000",
    "[::ffff:127.0.0.1]:1",
    "models.example:443",
)
BAD = (
    "[::1]evil.com",
    "[127.0.0.1]evil.com",
    "[127.0.0.1]",
    "[::1",
    "::1",
    "[::1]:80:80",
    "[::1%evil.com]",
    "[::1]:evil",
    "localhost:80@evil.com",
    "evil.com@localhost",
    "localhost@evil.com",
    "user:password@localhost",
    "localhost:evil",
    "localhost:-1",
    "localhost:65536",
    "localhost:8000.evil.com",
    "localhost..",
    "localhost/evil.com",
    "localhost#evil.com",
    "localhost, evil.com",
    "localhost evil.com",
    "0127.0.0.1",
    "127.1",
    "2130706433",
    "127.0.0.1.evil.com",
    "evil.com",
    "",
    ".",
    "models.example.evil.com",
)


@pytest.mark.parametrize("host", GOOD)
def test_names_and_addresses_of_this_service(host):
    check_host([host], ["models.example"])


@pytest.mark.parametrize("host", BAD)
def test_other_hosts_are_rejected(host):
    with pytest.raises(RequestError, match="--allowed-host NAME"):
        check_host([host], ["models.example"])


def test_each_of_several_hosts_is_checked():
    for hosts in ([], ["localhost", "evil.com"], ["evil.com", "localhost"]):
        with pytest.raises(RequestError):
            check_host(hosts, [])


@pytest.mark.parametrize(
    ("target", "hosts", "path"),
    [
        (b"/health", [], "/health"),
        (b"http://localhost:80/health", ["localhost:80"], "/health"),
        (b"HTTPS://evil.com/runs/a%20b/translate", ["evil.com"], "/runs/a b/translate"),
        (b"http://user@localhost/health", ["user@localhost"], "/health"),
        (b"http://localhost", ["localhost"], "/"),
        (b"ftp://localhost/health", [], "ftp://localhost/health"),
    ],
)
def test_an_absolute_target_has_a_host(target, hosts, path):
    scope = {"raw_path": target, "path": unquote(target.decode()), "root_path": ""}
    assert take_authority(scope) == hosts
    assert scope["path"] == path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/runs/num%2ftranslate", 404),
        (b"/runs/num%2Ftranslate", 404),
        (b"/..%2fhealth", 404),
        (b"/runs/%ff/translate", 400),
        (b"/runs/%c0%af/translate", 400),
        (b"/health%", 400),
        (b"/health%2", 400),
        (b"/health%zz", 400),
        (b"/health%u0041", 400),
    ],
)
def test_wrong_paths(path, status):
    with pytest.raises(RequestError) as caught:
        check_path(path)
    assert caught.value.status == status


@pytest.mark.parametrize("path", [b"/health", b"/runs/a%20%C3%A9%252f/translate", b""])
def test_right_paths(path):
    check_path(path)
