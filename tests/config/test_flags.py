"""What is said on the command line wins over the file; paths are relative to where they were written."""

from pathlib import Path
from typing import Any

import pytest

from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.recording.journal_file import JournalFileOptions
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.sections import address
from bayplan.snapshot.files import SnapshotError
from tests.runtimes.extender.obedient import write_config

TLS = {
    "certFile": "tls/cert.pem",
    "keyFile": "tls/key.pem",
    "clientCAFile": "ca.pem",
    "requireClientCert": True,
}


def loaded(folder: Path, flags: dict[str, Any] | None = None, **extender: Any) -> Any:
    return load_all([], Flags(config=write_config(folder, **extender), **(flags or {})))


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    flags = {"listen": "127.0.0.1:1", "ops_listen": "127.0.0.1:2", "path": "/p", "observe": True}

    extender = loaded(tmp_path, flags, path="/q", observe=False).config.extender

    assert (extender.listen, extender.ops_listen, extender.path) == ("127.0.0.1:1", "127.0.0.1:2", "/p")
    assert extender.observe


def test_flags_that_are_not_given_leave_the_file_alone(tmp_path: Path) -> None:
    extender = loaded(tmp_path, path="/q", observe=True).config.extender

    assert (extender.path, extender.observe) == ("/q", True)


def test_nodes_alone_are_followed_wherever_the_command_line_finds_the_cluster(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    config.write_text(config.read_text() + "\ncluster: {source: kubeconfig, nodesOnly: true}\n")

    cluster = load_all([], Flags(config=config, in_cluster=True)).config.cluster

    assert (cluster.source, cluster.nodes_only, cluster.knows_pods) == ("in-cluster", True, False)


def journal_of(folder: Path, text: str, **flags: Any) -> Any:
    config = write_config(folder)
    config.write_text(config.read_text() + text)
    return load_all([], Flags(config=config, **flags))


def test_a_journal_file_on_the_command_line_is_rotated_as_the_file_says(tmp_path: Path) -> None:
    text = "journal: {file: {path: ours.jsonl, maxBytes: 1000, keep: 2}}\n"

    found = journal_of(tmp_path, text, journal_file=tmp_path / "mine").config.journal.file

    assert (found.path, found.max_bytes, found.keep) == (str(tmp_path / "mine"), 1000, 2)


def test_a_journal_is_written_to_disk_where_somebody_says_so(tmp_path: Path) -> None:
    beside = options_from(journal_of(tmp_path, "journal: {file: {path: j}}\n"), version="").journal_file
    flagged = options_from(journal_of(tmp_path, "", journal_file=tmp_path / "k"), version="").journal_file

    assert beside == JournalFileOptions(tmp_path / "j", 100 * 2**20, 5)
    assert flagged == JournalFileOptions(tmp_path / "k", 100 * 2**20, 5)
    assert options_from(journal_of(tmp_path, ""), version="").journal_file is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{file: {keep: 5}}", "`path` is missing", id="no path"),
        pytest.param("{file: {path: j, keeps: 5}}", "keeps: unknown key; did you mean", id="a typo"),
        pytest.param("{file: {path: j, keep: -1}}", "journal.file.keep: want", id="less than none"),
        pytest.param("{file: j}", "journal.file: want a mapping", id="a path alone"),
    ],
)
def test_a_journal_file_that_is_not_understood_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        journal_of(tmp_path, f"journal: {text}\n")


def test_a_ca_on_the_command_line_keeps_others_out(tmp_path: Path) -> None:
    flags = {"tls_cert": Path("c.pem"), "tls_key": Path("k.pem"), "tls_client_ca": Path("ca.pem")}

    tls = loaded(tmp_path, flags).config.extender.tls

    assert tls.require_client_cert
    assert Path(tls.cert_file) == Path.cwd() / "c.pem"
    assert Path(tls.client_ca_file) == Path.cwd() / "ca.pem"


def test_one_certificate_flag_lies_over_the_file(tmp_path: Path) -> None:
    tls = loaded(tmp_path, {"tls_cert": Path("/new.pem")}, tls=TLS).config.extender.tls

    assert (tls.cert_file, tls.key_file, tls.require_client_cert) == ("/new.pem", "tls/key.pem", True)


@pytest.mark.parametrize("given", ["tls_cert", "tls_key", "tls_client_ca"])
def test_half_of_a_key_pair_is_an_error(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match="both --tls-cert and --tls-key"):
        loaded(tmp_path, {given: Path("x.pem")})


def test_two_clusters_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--kubeconfig and --snapshot each say where the cluster is"):
        loaded(tmp_path, {"kubeconfig": Path("k"), "snapshot": Path("s")})


@pytest.mark.parametrize(
    ("flags", "source"),
    [
        pytest.param({"kubeconfig": Path("k")}, "kubeconfig", id="kubeconfig"),
        pytest.param({"in_cluster": True}, "in-cluster", id="in a pod"),
        pytest.param({"snapshot": Path("s")}, "snapshot", id="snapshot"),
        pytest.param({}, "request", id="none"),
    ],
)
def test_where_the_cluster_is(tmp_path: Path, flags: dict[str, Any], source: str) -> None:
    assert loaded(tmp_path, flags).config.cluster.source == source


def test_files_and_a_configuration_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not both"):
        load_all(["policy.py"], Flags(config=write_config(tmp_path)))


def test_paths_in_the_file_are_relative_to_the_file(tmp_path: Path) -> None:
    found = loaded(tmp_path, tls=TLS, kubeSchedulerVersion="1.38", limits={"maxInFlight": 7})

    options = options_from(found, version="test")

    assert options.tls is not None
    assert options.tls.cert_file == tmp_path / "tls/cert.pem"
    assert options.tls.client_ca_file == tmp_path / "ca.pem"
    assert options.failed_nodes_heeded
    assert options.limits.max_in_flight == 7


@pytest.mark.parametrize(("version", "heeded"), [("1.25", False), ("v1.37.0-rc.1", False), ("v1.38.0", True)])
def test_failed_nodes_are_heeded_from_1_38_on(tmp_path: Path, version: str, *, heeded: bool) -> None:
    found = loaded(tmp_path, kubeSchedulerVersion=version)

    options = options_from(found, version="test")

    assert options.failed_nodes_heeded is heeded


def test_a_snapshot_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"snapshot": tmp_path / "missing.json"})

    with pytest.raises(SnapshotError, match=r"missing\.json"):
        options_from(found, version="test")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("127.0.0.1:8888", ("127.0.0.1", 8888)),
        (":8888", ("::", 8888)),
        ("[::]:8888", ("::", 8888)),
        ("0.0.0.0:8888", ("0.0.0.0", 8888)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses(text: str, wanted: tuple[str, int]) -> None:
    assert address(text, key="extender.listen") == wanted


@pytest.mark.parametrize("text", ["", "8888", "localhost", "localhost:", "localhost:http", "a:-1"])
def test_what_is_no_address_is_named_with_its_key(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"extender\.listen: .* is not HOST:PORT, such as 127\.0\.0\.1:8888"
    ):
        address(text, key="extender.listen")


@pytest.mark.parametrize("port", ["65536", "99999999"])
def test_a_port_that_is_too_high_is_said_to_be(port: str) -> None:
    with pytest.raises(ConfigError, match=f"extender.listen: 'a:{port}': there is no port above 65535"):
        address(f"a:{port}", key="extender.listen")
