"""What the tests of skills share: packages, archives of them, and a boxd's store seen from the host."""

import importlib.util
import io
import json
import os
import subprocess
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "skills"
SAMPLES = ["csv-report", "数据清洗", "meeting-notes", "haiku", "py-tool"]


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _load(HERE.parent / "conformance" / "langbot" / "skill_cases.py")


def files_of(directory):
    """{path: (mode, bytes)} of what is below, directories not counted."""
    return {str(path.relative_to(directory)): (path.stat().st_mode & 0o777, path.read_bytes())
            for path in sorted(Path(directory).rglob("*")) if path.is_file() and not path.is_symlink()}


def zip_of(files, compression=zipfile.ZIP_DEFLATED):
    """An archive of {path: bytes}, or of {path: (mode, bytes)}."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for path, content in files.items():
            mode, data = content if isinstance(content, tuple) else (0o644, content)
            info = zipfile.ZipInfo(path, (2024, 1, 2, 3, 4, 6))
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = compression
            archive.writestr(info, data)
    return out.getvalue()


def sample_zip(name):
    return zip_of({f"{name}/{path}": content for path, content in files_of(DATA / name).items()})


def unzipped(data):
    """As files_of()."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {info.filename: (info.external_attr >> 16 & 0o777, archive.read(info))
                for info in archive.infolist() if not info.is_dir()}


def skill_md(name, text="x", **keys):
    front = "".join(f"{key}: {value}\n" for key, value in {"name": name, **keys}.items())
    return f"---\n{front}---\n\n{text}\n".encode()


class Skills:
    """A boxd's skills, by REST, and its store as it lies there."""

    def __init__(self, boxd):
        self.boxd = boxd
        self.client = boxd.client
        self.root = boxd.state_dir / "skills"

    def path(self, name, *more):
        return "/v1/skills/" + "/".join(quote(part, safe="") for part in (name, *more))

    def list(self):
        return self.client.get("/v1/skills").ok()["skills"]

    def names(self):
        return sorted(skill["name"] for skill in self.list())

    def get(self, name):
        return self.client.get(self.path(name))

    def create(self, name, /, **fields):
        return self.client.post("/v1/skills", {"name": name, **fields})

    def update(self, name, /, **fields):
        return self.client.request("PATCH", self.path(name), json=fields)

    def delete(self, name):
        return self.client.delete(self.path(name))

    def file(self, name, path):
        return f"{self.path(name)}/files/{quote(path)}"

    def archive(self, name):
        return self.client.get(self.path(name, "archive"))

    def send(self, data, query="", verb="install"):
        return self.client.post(f"/v1/skills/{verb}{query}", body=data, headers={"Content-Type": "application/zip"})

    def form(self, tmp_path, data, *fields, verb="install", filename="pack.zip"):
        """As curl makes a form: the status and the JSON."""
        archive = tmp_path / "form.zip"
        archive.write_bytes(data)
        parts = [part for field in (f"file=@{archive};filename={filename}", *fields) for part in ("-F", field)]
        done = subprocess.run(["curl", "-sS", "-o", "-", "-w", "\n%{http_code}", "--unix-socket", str(self.boxd.socket), *parts,
                               f"http://localhost/v1/skills/{verb}"], capture_output=True, timeout=60, check=True)
        body, status = done.stdout.rsplit(b"\n", 1)
        return int(status), json.loads(body)

    def tree(self):
        """Everything in the store's directory, which may be changing."""
        return sorted(os.path.relpath(os.path.join(above, name), self.root)
                      for above, directories, files in os.walk(self.root) for name in directories + files)

    def clear(self):
        for skill in self.list():
            answer = self.delete(skill["name"])
            assert answer.status in (200, 404), answer


@pytest.fixture
def skills(daemon):
    made = Skills(daemon)
    yield made
    made.clear()
    assert made.tree() == []
