"""A network of its own to attack: a host that forwards, and the world behind it, in two namespaces.

    sandbox ── box ── host namespace ──────── world namespace
                      198.51.100.1/24   ──    198.51.100.2/24
                      10.8.0.1 (own)          203.0.113.10, 10.9.9.9, 10.9.9.53, 169.254.169.254

Nothing leads out of it. Servers say where they are: "world" or "host".
"""

import os
import subprocess
import sys
from pathlib import Path

HOST_PUBLIC, HOST_PRIVATE = "198.51.100.1", "10.8.0.1"
PUBLIC, PRIVATE, METADATA, RESOLVER = "203.0.113.10", "10.9.9.9", "169.254.169.254", "10.9.9.53"
WORLD_PORT, HOST_PORT = 8080, 7000

SERVER = r"""
import selectors, socket, sys
name, *ports = sys.argv[1:]
selector = selectors.DefaultSelector()
for port in map(int, ports):
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    tcp.bind(("0.0.0.0", port))
    tcp.listen(64)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Answers must come from the address that was asked.
    udp.setsockopt(socket.IPPROTO_IP, 8, 1)
    udp.bind(("0.0.0.0", port))
    selector.register(tcp, selectors.EVENT_READ, "tcp")
    selector.register(udp, selectors.EVENT_READ, "udp")
print("READY", flush=True)
while True:
    for key, _ in selector.select():
        try:
            if key.data == "tcp":
                peer, _ = key.fileobj.accept()
                peer.sendall(name.encode() + b"\n")
                peer.settimeout(2)
                peer.recv(64)  # closing with something unread would reset the connection
                peer.close()
            else:
                _, control, _, address = key.fileobj.recvmsg(512, 512)
                info = [data for level, kind, data in control if (level, kind) == (0, 8)]
                key.fileobj.sendmsg([name.encode() + b"\n"], [(0, 8, data) for data in info], 0, address)
        except OSError:
            pass
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Lab:
    """To be used in a with statement, by root."""

    def __init__(self, directory, forward=True):
        self.directory = Path(directory)
        self.host = f"boxt-h{os.getpid()}"
        self.world = f"boxt-w{os.getpid()}"
        self.forward = forward
        self.servers = []

    def inside(self, name, *command):
        """Runs a command in one of the namespaces; mounts stay those of the machine."""
        return run("nsenter", f"--net=/run/netns/{name}", *command)

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        for name in (self.host, self.world):
            run("ip", "netns", "add", name)
            self.inside(name, "ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "up0", "netns", self.host, "type", "veth", "peer", "up0", "netns", self.world)
        for name, address in ((self.host, f"{HOST_PUBLIC}/24"), (self.world, "198.51.100.2/24")):
            self.inside(name, "ip", "address", "add", address, "dev", "up0")
            self.inside(name, "ip", "link", "set", "up0", "up")
        self.inside(self.host, "ip", "address", "add", f"{HOST_PRIVATE}/32", "dev", "lo")
        self.inside(self.host, "ip", "route", "add", "default", "via", "198.51.100.2")
        for address in (PUBLIC, PRIVATE, METADATA, RESOLVER):
            self.inside(self.world, "ip", "address", "add", f"{address}/32", "dev", "lo")
        forward = "1" if self.forward else "0"
        self.inside(self.host, "sh", "-c", f"echo {forward} > /proc/sys/net/ipv4/ip_forward")
        self._serve(self.host, "host", HOST_PORT, WORLD_PORT)
        self._serve(self.world, "world", WORLD_PORT, 53, 80)
        (self.directory / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        # Most systems let everybody open it; here it is made so for these tests alone.
        tun = self.directory / "tun"
        os.mknod(tun, 0o20666, os.makedev(10, 200))
        tun.chmod(0o666)

    def _serve(self, name, *arguments):
        command = ["nsenter", f"--net=/run/netns/{name}", sys.executable, "-c", SERVER, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.servers.append(process)
        assert process.stdout.readline() == b"READY\n"

    @property
    def wrapper(self):
        """What to put in front of box so that this is its host."""
        script = f"mount --bind {self.directory}/resolv.conf /etc/resolv.conf"
        if Path("/dev/net/tun").exists():
            script += f"; mount --bind {self.directory}/tun /dev/net/tun"
        script += '; exec "$@"'
        return ["nsenter", f"--net=/run/netns/{self.host}", "unshare", "--mount", "sh", "-ec", script, "sh"]

    def links(self):
        """Links of the host that the lab did not make."""
        lines = self.inside(self.host, "ip", "-o", "link").splitlines()
        names = {line.split(": ")[1].split("@")[0] for line in lines}
        return names - {"lo", "up0"}

    def tables(self):
        return set(self.inside(self.host, "nft", "list", "tables").splitlines())

    def __exit__(self, *unused):
        for process in self.servers:
            process.kill()
            process.wait()
            process.stdout.close()
        for name in (self.host, self.world):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)
