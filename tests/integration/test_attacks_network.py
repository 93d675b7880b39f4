"""ABUSE case 29: what a sandbox can reach. The network is the test's own; nothing is sent elsewhere."""

import os
import re
import shutil
import subprocess

import pytest

import hostview
import netlab
from conftest import ROOT, SLOWNESS
from netlab import HOST_PORT, HOST_PRIVATE, HOST_PUBLIC, METADATA, PRIVATE, PUBLIC, RESOLVER, WORLD_PORT

if not ROOT:
    pytest.skip("networks to attack can only be built by root", allow_module_level=True)
for tool in ("ip", "nsenter", "nft"):
    if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"):
        pytest.skip(f"{tool} is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with netlab.Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def netbox(box, lab):
    """box in the lab's host namespace; afterwards nothing of a session is left there."""
    if not box.root and not shutil.which("pasta", path="/usr/bin:/usr/local/bin:/bin"):
        pytest.skip("a network without root needs pasta, which is not installed")
    box.wrapper = lab.wrapper
    box.lab = lab
    yield box
    assert hostview.wait_until(lambda: not lab.links() and not lab.tables(), 5 * SLOWNESS), \
        f"left: {lab.links()} {lab.tables()}"


ON = ["--network", "on"]


def reach(box, *targets, options=ON):
    """Tries each (protocol, address, port); {(…): greeting, or the errno}."""
    words = [str(word) for target in targets for word in target]
    result = box.attack("connect", *words, options=options).ok()
    found = {}
    for target in targets:
        status, detail = result.tries[":".join(map(str, target))]
        found[target] = detail if status == "OK" else status
    return found


def refused(found):
    reached = {target: answer for target, answer in found.items() if not re.fullmatch(r"E[A-Z]+", answer)}
    assert not reached, f"reached: {reached}"


def test_29_public_addresses_are_reachable(netbox):
    """What the network is for; without it the rest of this file would prove nothing."""
    for protocol in ("tcp", "udp"):
        target = (protocol, PUBLIC, WORLD_PORT)
        assert reach(netbox, target) == {target: "world"}


def test_29_metadata_and_private_addresses(netbox):
    """Link-local (metadata services) and private ranges, though the host itself reaches them."""
    for address in (METADATA, PRIVATE):
        netbox.lab.inside(netbox.lab.host, "python3", "-c",
                          f"import socket; socket.create_connection(('{address}', {WORLD_PORT}), 5)")
    ports = {METADATA: (80, WORLD_PORT), PRIVATE: (WORLD_PORT, 53)}
    refused(reach(netbox, *((protocol, address, port) for protocol in ("tcp", "udp")
                            for address in ports for port in ports[address])))


def test_29_the_host_itself(netbox):
    """Its loopback, its addresses, the gateway, and with them boxd's own port."""
    route = netbox.run(*ON, "--", "cat", "/proc/net/route").ok().out.splitlines()[1:]
    gateways = [line.split()[2] for line in route if line.split()[1] == "00000000"]
    assert len(gateways) == 1, route
    gateway = ".".join(str(byte) for byte in reversed(bytes.fromhex(gateways[0])))
    targets = [(protocol, address, port) for protocol in ("tcp", "udp") for port in (HOST_PORT, WORLD_PORT)
               for address in ("127.0.0.1", HOST_PUBLIC, HOST_PRIVATE, gateway, "0.0.0.0")]
    refused(reach(netbox, *targets))


def test_29_other_special_addresses(netbox):
    """Broadcast, multicast, "this network", IPv6 in several disguises."""
    addresses = ["255.255.255.255", "224.0.0.1", "0.0.0.1", "198.51.100.255", "100.64.0.1", "192.168.0.1", "172.16.0.1",
                 "168.63.129.16", "240.0.0.1", f"::ffff:{PRIVATE}", f"::ffff:{METADATA}", f"::ffff:{HOST_PUBLIC}",
                 "fd00::1", "fe80::1", "ff02::1", "64:ff9b::a09:909"]
    refused(reach(netbox, *(("tcp", address, WORLD_PORT) for address in addresses)))


def address_of(box, pid):
    """The session's own address, read from its namespace."""
    out = box.lab.inside(box.lab.host, "nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-o", "-4", "address")
    return [line.split()[3].split("/")[0] for line in out.splitlines() if " lo " not in line]


def test_29_other_sessions(netbox):
    """A neighbour that listens cannot be reached: from a session, from the host, from the world."""
    with netbox.start_attack("serve", "0.0.0.0", "9000", options=ON) as neighbour:
        neighbour.wait_output()
        [address] = address_of(netbox, neighbour.tree()["init"])
        targets = [("tcp", address, 9000), ("tcp", "127.0.0.1", 9000), ("tcp", HOST_PUBLIC, 9000)]
        refused(reach(netbox, *targets))
        for place in (netbox.lab.host, netbox.lab.world):
            script = ("import socket, sys\n"
                      "try:\n"
                      f"    socket.create_connection(('{address}', 9000), 2)\n"
                      "except OSError:\n"
                      "    sys.exit(0)\n"
                      "sys.exit('reached')\n")
            if place == netbox.lab.world:
                netbox.lab.inside(place, "ip", "route", "replace", f"{address}/32", "via", HOST_PUBLIC)
            try:
                netbox.lab.inside(place, "python3", "-c", script)
            finally:
                if place == netbox.lab.world:
                    netbox.lab.inside(place, "ip", "route", "del", f"{address}/32")


def test_29_link_local_address_of_the_host(netbox):
    """IPv6 needs no configuration: the host's end of the link may have an address by itself."""
    script = ("import socket; s = socket.socket(socket.AF_INET6); s.bind(('::', 7001)); s.listen(); "
              "print('READY', flush=True); s.accept(); print('REACHED', flush=True)")
    command = ["nsenter", f"--net=/run/netns/{netbox.lab.host}", "/usr/bin/python3", "-c", script]
    inside = 'echo READY; while read a; do /attack/attack connect tcp "$a%eth0" 7001 tcp "$a" 7001; done'
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server, \
            netbox.start(*ON, *netbox.with_helper, "-i", "--", "sh", "-c", inside, stdin=subprocess.PIPE) as live:
        try:
            assert server.stdout.readline() == b"READY\n"
            live.wait_output()
            pid = live.tree()["init"]
            out = netbox.lab.inside(netbox.lab.host, "ip", "-o", "-6", "address")
            addresses = re.findall(r"inet6 ([0-9a-f:]+)/", out) + ["ff02::1", "ff02::2", "fe80::1"]
            own = netbox.lab.inside(netbox.lab.host, "nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-o", "-6", "address")
            result_out, _ = live.process.communicate("".join(f"{a}\n" for a in addresses).encode(), 120)
            tries = re.findall(r"RESULT (\S+) (\S+)", result_out.decode())
            assert len(tries) == 2 * len(addresses), result_out
            # ::1 is the session's own loopback, where nobody listens.
            assert all(status != "OK" for _, status in tries), f"{tries} {own}"
        finally:
            server.kill()
        assert b"REACHED" not in server.stdout.read()


def test_29_two_sessions_at_once(netbox):
    """Both get out, side by side."""
    with netbox.start_attack("hold", options=ON) as first:
        first.wait_output()
        target = ("tcp", PUBLIC, WORLD_PORT)
        assert reach(netbox, target) == {target: "world"}


def test_29_resolver(netbox):
    """The configured name server is reachable where it is, on its port and no other."""
    dns = [("udp", RESOLVER, 53), ("tcp", RESOLVER, 53)]
    assert reach(netbox, *dns) == {target: "world" for target in dns}
    refused(reach(netbox, ("tcp", RESOLVER, WORLD_PORT), ("udp", RESOLVER, WORLD_PORT)))
    text = netbox.run(*ON, "--", "cat", "/etc/resolv.conf").ok().out
    assert f"nameserver {RESOLVER}" in text


def test_29_allowed_ranges(netbox):
    """--allow-net opens what it names, and never the host or a neighbour."""
    private = ("tcp", PRIVATE, WORLD_PORT)
    assert reach(netbox, private, options=[*ON, "--allow-net", "10.9.9.0/24"]) == {private: "world"}
    metadata = ("tcp", METADATA, 80)
    assert reach(netbox, metadata, options=[*ON, "--allow-net", "169.254.169.254"]) == {metadata: "world"}
    wide = [*ON, "--allow-net", "10.0.0.0/8", "--allow-net", "198.51.100.0/24", "--allow-net", "127.0.0.0/8"]
    assert reach(netbox, private, options=wide) == {private: "world"}
    refused(reach(netbox, ("tcp", HOST_PRIVATE, HOST_PORT), ("tcp", HOST_PUBLIC, HOST_PORT),
                  ("tcp", "127.0.0.1", HOST_PORT), metadata, options=wide))
    with netbox.start_attack("serve", "0.0.0.0", "9000", options=wide) as neighbour:
        neighbour.wait_output()
        [address] = address_of(netbox, neighbour.tree()["init"])
        refused(reach(netbox, ("tcp", address, 9000), options=wide))


def test_29_links_cannot_be_changed(netbox):
    """It sees loopback and one link, and can change neither."""
    result = netbox.attack("links", options=ON).ok()
    assert {label for label in result.tries if label.startswith("link:")} == {"link:lo", "link:eth0"}
    assert result.status("lo.down") == "EPERM"
    assert result.status("lo.address") == "EPERM"


def test_29_rules_cannot_be_changed(netbox):
    """Its filter is out of reach: no netlink but ROUTE, no nft."""
    result = netbox.run(*ON, "--", "/usr/sbin/nft", "flush", "ruleset")
    assert result.returncode != 0
    refused(reach(netbox, ("tcp", PRIVATE, WORLD_PORT)))


@pytest.mark.parametrize("where", ["lab", "machine"])
def test_29_network_off(box, lab, where):
    """Nothing is reachable; loopback works and is its own."""
    if where == "lab":
        box.wrapper = lab.wrapper
    targets = [("tcp", address, port) for port in (HOST_PORT, WORLD_PORT, 53) for address in
               (PUBLIC, PRIVATE, METADATA, RESOLVER, HOST_PUBLIC, HOST_PRIVATE, "127.0.0.1", "::1")]
    found = reach(box, *targets, options=["--network", "off"])
    refused(found)
    # At once: there is no route, rather than a packet that is lost.
    assert set(found.values()) <= {"ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL"}, found
    result = box.attack("loopback").ok()
    assert result.status("127.0.0.1") == "OK"
    links = box.attack("links").ok()
    assert {label for label in links.tries if label.startswith("link:")} == {"link:lo"}
    assert links.status("lo.down") == "EPERM"


def test_29_loopback_with_network_on(netbox):
    assert netbox.attack("loopback", options=ON).ok().status("127.0.0.1") == "OK"


@pytest.mark.parametrize("victim", ["box", "spawner", "init"])
def test_29_links_go_with_a_killed_session(netbox, victim):
    """kill -9 of any of them: box ends, and the fixture looks that no link and no rule stays."""
    with netbox.start_attack("hold", options=ON) as live:
        live.wait_output()
        if netbox.root:
            assert netbox.lab.links() and netbox.lab.tables()
        os.kill(live.tree()[victim], 9)
        assert live.result(20 * SLOWNESS).returncode == (-9 if victim == "box" else 125)


def test_29_host_that_does_not_forward(root_box, lab):
    """An error with the fix, not a sandbox without the network it was promised."""
    lab.inside(lab.host, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
    try:
        root_box.wrapper = lab.wrapper
        result = root_box.run(*ON, "--", "true").failed()
        assert "net.ipv4.ip_forward=1" in result.err
        assert lab.links() == set()
    finally:
        lab.inside(lab.host, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def test_29_abstract_sockets_with_network_on(netbox):
    """Network on is a namespace of its own as well: no abstract socket of the host (case 28)."""
    token = f"boxtest-net-{os.getpid()}"
    script = (f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('\\0{token}'); s.listen(); "
              "print('READY', flush=True); sys.stdin.read()")
    command = ["nsenter", f"--net=/run/netns/{netbox.lab.host}", "/usr/bin/python3", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"READY\n"
        assert netbox.attack("unix", f"@{token}", options=ON).ok().status(f"@{token}") == "ECONNREFUSED"
        server.stdin.close()
