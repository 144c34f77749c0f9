"""`regard serve`: its options, and what it refuses before it listens."""

import json
import shutil
import subprocess
import sys

import pytest

from regard.cli import main
from regard.cli.inference import serve
from tests.cli.test_commands import regard
from tests.messages import check_message
from tests.small_runs import RUNS


@pytest.fixture
def served(monkeypatch):
    """The services that would be served."""
    services = []

    def serve_at_once(service, bound):
        services.append((service, bound.getsockname()))
        return True

    monkeypatch.setattr("regard.serving.server.serve", serve_at_once)
    monkeypatch.setattr("regard.serving.logs.install", lambda: None)
    monkeypatch.delenv("REGARD_TOKEN", raising=False)
    return services


def test_the_address_is_printed_and_the_status_is_0(capsys, served):
    status, out, err = regard(capsys, "serve", RUNS / "plain", RUNS / "series", "--port", 0)
    ((service, (host, port)),) = served
    assert (status, err) == (0, "")
    assert out == f"plain, series at http://{host}:{port} (Ctrl-C to stop)\n"
    assert host == "127.0.0.1"
    assert [verb.name for verb in service.runs["plain"].verbs] == ["translate", "score"]
    assert [verb.name for verb in service.runs["series"].verbs] == ["classify"]
    assert service.access.token is None


def test_options_are_bounds_of_the_service(capsys, served, monkeypatch):
    monkeypatch.setenv("REGARD_TOKEN", "environment")
    options = ["--max-texts", 7, "--max-body", 3, "--timeout", 2.5, "--window", 4]
    options += ["--allowed-host", "a.example", "--allowed-host", "b.example", "--batch-texts", 5]
    assert regard(capsys, "serve", RUNS / "plain", "--port", 0, *options)[0] == 0
    limits = served[0][0].limits
    assert (limits.texts, limits.body_bytes, limits.seconds) == (7, 3 << 20, 2.5)
    assert (limits.window, limits.batch_texts) == (4, 5)
    access = served[0][0].access
    assert access.token == "environment"
    assert access.hosts == ("a.example", "b.example", "127.0.0.1")
    regard(capsys, "serve", RUNS / "plain", "--port", 0, "--token", "option")
    assert served[1][0].access.token == "option"


def test_an_open_address_without_a_token_has_a_warning(capsys, served):
    status, _, err = regard(capsys, "serve", RUNS / "plain", "--port", 0, "--host", "0.0.0.0")
    assert status == 0
    check_message(err)
    *_, err = regard(
        capsys, "serve", RUNS / "plain", "--port", 0, "--host", "0.0.0.0", "--token", "secret"
    )
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no runs: name at least one run folder"),
        (["nowhere"], "nowhere is not a run"),
        ([RUNS / "plain", "--port", "70000"], "--port is '70000': expected a whole number from 0"),
        ([RUNS / "plain", "--token", "two words"], "must be ASCII without spaces"),
        ([RUNS / "plain", "--token", ""], "must be ASCII without spaces"),
        ([RUNS / "plain", "--queue", "2"], "a request can have 128 texts, but the queue only 2"),
        ([RUNS / "plain", RUNS / "plain"], "two runs have the name plain"),
        ([RUNS / "plain", "--host", "nowhere.invalid"], "cannot listen at nowhere.invalid"),
    ],
)
def test_a_wrong_option_is_one_line(capsys, served, arguments, message):
    status, out, err = regard(capsys, "serve", *arguments)
    assert status != 0
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not served


def test_a_missing_library_is_one_line_with_its_installation():
    code = "import sys; sys.modules['uvicorn'] = None; from regard.cli import main\n"
    code += f"sys.exit(main.run(['serve', {str(RUNS / 'plain')!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    check_message(done.stderr)


def test_a_damaged_model_ends_the_server_with_one_line(tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(RUNS / "plain", folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    done = subprocess.run(
        [sys.executable, "-m", "regard", "serve", folder, "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "model.safetensors" in lines[-1]
    assert lines[-1].startswith("regard serve: ")
    assert all(json.loads(line)["event"] for line in lines[:-1])


def test_help_imports_no_large_library():
    code = "import sys; from regard.cli import main; from regard.cli.inference import serve\n"
    code += "try: main.run(['serve', '--help'])\nexcept SystemExit: pass\n"
    code += "print({'torch', 'starlette', 'uvicorn', 'prometheus_client', 'ray'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "set()"
    assert "--allowed-host NAME" in done.stdout


def test_options_have_the_defaults_of_the_limits():
    from regard.serving.api.limits import Limits

    assert main.COMMANDS["serve"]
    options, limits = serve.Options(runs=()), Limits()
    assert (options.queue, options.max_texts, options.max_characters) == (
        limits.queue,
        limits.texts,
        limits.characters,
    )
    assert (options.max_body << 20, options.max_image_body << 20) == (
        limits.body_bytes,
        limits.image_bytes,
    )
    assert (options.max_beam, options.timeout, options.drain) == (
        limits.beam,
        limits.seconds,
        limits.drain,
    )
    assert (options.batch_texts, options.batch_tokens, options.window) == (
        limits.batch_texts,
        limits.batch_tokens,
        limits.window,
    )
