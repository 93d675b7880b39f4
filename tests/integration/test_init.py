"""box_init: LangBot's tree over the configuration of a running boxd."""

import signal

import pytest

import rpc

SPEC = {"session_id": "a", "cmd": "echo yes"}


def limits_of(boxd):
    return rpc.call(boxd, "box_status").ok()["limits"]


def lines_of(boxd, event):
    return [line for line in boxd.log().splitlines() if f" {event} " in line]


def reload(boxd, config):
    """Waits for the one SIGHUP to be through."""
    before = len(lines_of(boxd, "reloaded"))
    boxd.configure(config)
    boxd.send(signal.SIGHUP)
    assert rpc.hostview.wait_until(lambda: len(lines_of(boxd, "reloaded")) > before, rpc.PATIENCE), boxd.log()[-2000:]


# --- limits -----------------------------------------------------------------------------------


def test_limits_take_effect(start_boxd):
    boxd = start_boxd()
    assert rpc.call(boxd, "box_init", {"limits": {"max_sessions": 1, "max_rpc_file_bytes": 100}}).ok() == {"initialized": True}
    assert limits_of(boxd)["max_sessions"] == 1
    assert limits_of(boxd)["max_rpc_file_bytes"] == 100
    assert limits_of(boxd)["max_managed_processes"] == 64
    rpc.call(boxd, "box_exec", SPEC).ok()
    rpc.call(boxd, "box_exec", {**SPEC, "session_id": "b"}).failed("BoxCapacityExceededError")
    # Those that are not mentioned stay.
    rpc.call(boxd, "box_init", {"limits": {"max_managed_processes": 3}}).ok()
    assert limits_of(boxd)["max_sessions"] == 1
    assert limits_of(boxd)["max_managed_processes"] == 3


@pytest.mark.parametrize("tree, key", [
    ({"limits": {"max_sessions": 5001}}, "limits.max_sessions"),
    ({"limits": {"max_sessions": "5"}}, "limits.max_sessions"),
    ({"limits": {"max_sessions": True}}, "limits.max_sessions"),
    ({"limits": {"max_sessions": -1}}, "limits.max_sessions"),
    ({"limits": {"max_sessions": None}}, "limits.max_sessions"),
    ({"limits": 5}, "limits"),
    ({"limits": {"max_sessions": 7, "max_admission_records": 0}}, "limits.max_admission_records"),
    ({"limits": {"max_sessions": 7}, "local": {"host_root": ["/x"]}}, "local.host_root"),
    ({"limits": {"max_sessions": 7}, "local": {"host_root": "/x/../y"}}, "local.host_root"),
    ({"limits": {"max_sessions": 7}, "local": "x"}, "local"),
])
def test_malformed_changes_nothing(daemon, tree, key):
    before = limits_of(daemon)
    answer = rpc.call(daemon, "box_init", tree)
    assert answer.code == 1 and key in answer.text, answer.message
    assert limits_of(daemon) == before
    rpc.call(daemon, "box_health").ok()


def test_unknown_is_told_once(start_boxd):
    boxd = start_boxd()
    tree = {"tomorrow": {"a": [1]}, "limits": {"max_sesions": 5}, "listen": ["0.0.0.0:1"], "token_file": "/x",
            "run_dir": "/x", "http": {"allowed_origins": ["*"]}, "mounts": {"allowed_roots": ["/"]}, "user": "root",
            "audit": {"max_bytes": 0}, "control_token_file": "/x", "tenancy": "required", "session_ttl_sec": 1}
    for _ in range(3):
        rpc.call(boxd, "box_init", tree).ok()
    told = lines_of(boxd, "unknown_key")
    assert len(told) == len(tree), told
    assert any("limits.max_sesions" in line and "limits.max_sessions" in line for line in told)
    assert "init_changed" not in boxd.log()
    assert rpc.call(boxd, "box_status").ok()["session_ttl_sec"] == 300
    assert boxd.tcp.get("/v1/sessions", headers={"Origin": "https://evil.example"}).status == 403


def test_reload_keeps_it(start_boxd):
    boxd = start_boxd(config={"limits": {"max_sessions": 9, "max_managed_processes": 9}})
    rpc.call(boxd, "box_init", {"limits": {"max_sessions": 3}}).ok()
    reload(boxd, {"limits": {"max_sessions": 20, "max_managed_processes": 21}})
    assert limits_of(boxd)["max_sessions"] == 3
    assert limits_of(boxd)["max_managed_processes"] == 21
    assert not lines_of(boxd, "reload_needs_restart")


# --- directories ------------------------------------------------------------------------------


@pytest.fixture
def places(root_box):
    """Two directories of the host, and one that boxd was not given."""
    one, two, other = (root_box.directory() for _ in range(3))
    return one, two, other


def mount(boxd, path, session):
    return rpc.call(boxd, "box_exec", {"session_id": session, "cmd": "touch seen", "host_path": str(path)})


def test_roots_within_the_ceiling(start_boxd, places):
    one, two, other = places
    boxd = start_boxd(config={"mounts": {"allowed_roots": [str(one), str(two)]}})
    mount(boxd, two, "a").ok()
    tree = {"local": {"host_root": str(one), "allowed_mount_roots": [str(one), str(other)]}}
    for _ in range(2):
        rpc.call(boxd, "box_init", tree).ok()
    mount(boxd, one, "b").ok()
    assert (one / "seen").exists()
    # The directory of a workspace is made when it is first used.
    mount(boxd, one / "default" / "w", "c").ok()
    assert (one / "default" / "w" / "seen").exists()
    # What LangBot does not list it does not get, and what boxd was not given nobody does.
    mount(boxd, two, "d").failed("BoxValidationError", str(two))
    mount(boxd, other, "e").failed("BoxValidationError", str(other))
    assert not (other / "seen").exists()
    warned = lines_of(boxd, "config_warning")
    assert len(warned) == 1 and str(other) in warned[0] and "mounts.allowed_roots" in warned[0], warned
    # As a whole: what is said of `local` is all that holds of it.
    rpc.call(boxd, "box_init", {"local": {"host_root": str(two)}}).ok()
    mount(boxd, two, "f").ok()
    mount(boxd, one, "g").failed("BoxValidationError")


def test_nothing_in_common(start_boxd, places):
    one, two, other = places
    boxd = start_boxd(config={"mounts": {"allowed_roots": [str(one)]}})
    rpc.call(boxd, "box_init", {"local": {"host_root": str(other)}}).ok()
    mount(boxd, one, "a").failed("BoxValidationError")
    mount(boxd, other, "b").failed("BoxValidationError")
    assert len(lines_of(boxd, "config_warning")) == 3  # the root, and the directories in it
    rpc.call(boxd, "box_exec", SPEC).ok()


@pytest.mark.parametrize("wrap", [
    lambda local: {"box": {"local": local}},
    lambda local: {"box": {"box": {"local": local}}},
    lambda local: {f"local.{key}": value for key, value in local.items()},
    lambda local: {"box": {f"local.{key}": value for key, value in local.items()}},
], ids=["box", "box-box", "dots", "box-dots"])
def test_no_way_past_the_ceiling(start_boxd, places, wrap):
    """However the tree is written: neither directories nor the skill store of others come into reach."""
    one, _, other = places
    boxd = start_boxd(config={"mounts": {"allowed_roots": [str(one)]}})
    store = boxd.state_dir / "skills"
    tree = wrap({"allowed_mount_roots": ["/"], "skills_root": str(boxd.state_dir), "host_root": "/"})
    rpc.call(boxd, "box_init", tree).ok()
    for number, path in enumerate((other, store, boxd.state_dir, "/", "/etc")):
        mount(boxd, path, f"s{number}").failed("BoxValidationError")
    assert not (other / "seen").exists() and not (store / "seen").exists()


def test_many_unknown_keys(start_boxd):
    boxd = start_boxd()
    rpc.call(boxd, "box_init", {f"k{number}": 1 for number in range(50_000)}).ok()
    assert 0 < len(lines_of(boxd, "unknown_key")) <= 100


def test_a_guest_changes_nothing(start_boxd):
    """Where an instance is served, who names none cannot set anything for it."""
    boxd = start_boxd()
    instance = {"X-LangBot-Instance-Id": "inst-1"}
    rpc.call(boxd, "__ping", headers=instance).ok()
    before = rpc.call(boxd, "box_status").ok()
    for tree in ({"admission": {"required": True}}, {"limits": {"max_sessions": 1}}, {"backend": "e2b"}):
        assert rpc.call(boxd, "box_init", tree).ok() == {"initialized": True}
    assert rpc.call(boxd, "box_status").ok() == before
    assert lines_of(boxd, "init_ignored") and not lines_of(boxd, "init_changed")


def test_a_tree_cannot_widen_the_file(start_boxd):
    boxd = start_boxd(config={"admission": {"required": True, "memory_mb": 256, "max_grant_ttl_sec": 60}},
                      ready_path="/healthz")
    instance = {"X-LangBot-Instance-Id": "inst-1"}
    rpc.call(boxd, "box_init", {"admission": {"required": True, "memory_mb": 15000, "max_grant_ttl_sec": 86400}},
             headers=instance).ok()
    grant = {"instance_uuid": "inst-1", "workspace_uuid": "w", "execution_generation": 1, "entitlement_revision": 1,
             "expires_at": rpc.after(seconds=600), "max_sessions": 1, "max_managed_processes": 0}
    rpc.call(boxd, "box_upsert_sandbox_admission_grant", grant, headers=instance).failed("BoxAdmissionError")
    grant["expires_at"] = rpc.after(seconds=30)
    rpc.call(boxd, "box_upsert_sandbox_admission_grant", grant, headers=instance).ok()


def test_reload_leaves_roots_alone(start_boxd, places):
    one, two, _ = places
    config = {"mounts": {"allowed_roots": [str(one), str(two)]}}
    boxd = start_boxd(config=config)
    rpc.call(boxd, "box_init", {"local": {"host_root": str(one)}}).ok()
    reload(boxd, {**config, "session_ttl_sec": 77})
    assert not lines_of(boxd, "reload_needs_restart")
    assert rpc.call(boxd, "box_status").ok()["session_ttl_sec"] == 77
    mount(boxd, two, "a").failed("BoxValidationError")
    mount(boxd, one, "b").ok()


# --- backends ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["docker", "nsjail", "e2b", "podman", "tomorrow"])
def test_backend_that_is_not_there(start_boxd, name):
    boxd = start_boxd()
    rpc.call(boxd, "box_init", {"backend": name}).ok()
    assert rpc.call(boxd, "box_health").ok()["available"] is False
    rpc.call(boxd, "box_exec", SPEC).failed("BoxBackendUnavailableError", name, "native", "local")
    for again in ("local", "", "native"):
        rpc.call(boxd, "box_init", {"backend": name}).ok()
        rpc.call(boxd, "box_init", {"backend": again}).ok()
        assert rpc.call(boxd, "box_health").ok() == {"name": "native", "available": True}
    rpc.call(boxd, "box_exec", SPEC).ok()
    assert len(lines_of(boxd, "no_backend")) == 1


def test_backend_stays_with_sessions(start_boxd):
    boxd = start_boxd()
    rpc.call(boxd, "box_exec", SPEC).ok()
    rpc.call(boxd, "box_init", {"backend": "docker"}).ok()
    assert "wanted=docker" in lines_of(boxd, "backend_kept")[0]
    rpc.call(boxd, "box_exec", SPEC).ok()
    rpc.call(boxd, "box_delete_session", {"session_id": "a"}).ok()
    rpc.call(boxd, "box_init", {"backend": "docker"}).ok()
    rpc.call(boxd, "box_exec", SPEC).failed("BoxBackendUnavailableError")


def test_backend_of_the_file(start_boxd):
    boxd = start_boxd(start=False, config={"backend": "docker"})
    boxd.ready_path = "/healthz"
    boxd.start()
    assert "docker" in lines_of(boxd, "no_backend")[0]
    rpc.call(boxd, "box_exec", SPEC).failed("BoxBackendUnavailableError", "docker", "native")
    rpc.call(boxd, "box_init", {"backend": "local"}).ok()
    rpc.call(boxd, "box_exec", SPEC).ok()
    other = start_boxd(start=False, config={"backend": "tomorrow"}).call("--check-config")
    assert other.returncode == 1 and "backend must be one of" in other.err


def test_another_backend_ends_what_was_left(start_boxd):
    """Sessions of a boxd that had this backend are not left to nobody."""
    boxd = start_boxd()
    boxd.session()
    before = boxd.processes()
    boxd.stop(signal.SIGTERM)
    boxd.configure({"backend": "docker"})
    boxd.ready_path = "/healthz"
    boxd.start()
    assert rpc.hostview.wait_until(lambda: not any(map(rpc.is_alive, before)), rpc.PATIENCE)
    assert boxd.names() == []


# --- admission --------------------------------------------------------------------------------


def test_admission_is_not_taken_back(start_boxd):
    boxd = start_boxd()
    rpc.call(boxd, "box_exec", SPEC).ok()
    rpc.call(boxd, "box_init", {"admission": {"required": True}}).ok()
    rpc.call(boxd, "box_exec", SPEC).failed("BoxAdmissionError")
    rpc.call(boxd, "box_init", {"admission": {"required": False}}).ok()
    rpc.call(boxd, "box_exec", SPEC).failed("BoxAdmissionError")
    rpc.call(boxd, "box_init", {"admission": None}).ok()
    rpc.call(boxd, "box_exec", SPEC).failed("BoxAdmissionError")
    reload(boxd, {"admission": {"required": False}})
    rpc.call(boxd, "box_exec", SPEC).failed("BoxAdmissionError")


@pytest.mark.parametrize("section", [5, {"required": "perhaps"}, {"max_sessions": 2}, {"tomorrow": 1}])
def test_malformed_admission_is_required(start_boxd, section):
    boxd = start_boxd()
    rpc.call(boxd, "box_init", {"admission": section}).ok()
    rpc.call(boxd, "box_exec", SPEC).failed("BoxAdmissionError")


# --- tokens -----------------------------------------------------------------------------------


def test_control_token_changes_by_reload(start_boxd, root_box):
    path = root_box.directory(0o711) / "control"
    tokens = ["first-0123456789abcdef0123456789abcdef", "second-0123456789abcdef0123456789abcdef"]
    path.write_text(tokens[0] + "\n")
    path.chmod(0o600)
    boxd = start_boxd(config={"control_token_file": str(path), "user": "root"})

    def status(token):
        headers = {"X-LangBot-Instance-Id": "i-1", "X-LangBot-Box-Control-Token": token}
        try:
            return rpc.call(boxd, "__ping", headers=headers).code
        except rpc.daemon.websockets.InvalidStatusCode as refused:
            return refused.status_code

    assert [status(token) for token in tokens] == [0, 401]
    path.write_text(tokens[1] + "\n")
    reload(boxd, {"control_token_file": str(path), "user": "root"})
    assert [status(token) for token in tokens] == [401, 0]
