"""Commands in a world of their own, so that their processes and files are found whatever became of their parents."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil


class World:
    """A folder to run commands in, with folders of its own for temporary files and runs."""

    def __init__(self, folder):
        self.folder, self.temporary, self.runs = folder, folder / "temporary", folder / "runs"
        self.temporary.mkdir(parents=True)
        self.name = uuid.uuid4().hex
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "FAULTS_WORLD": self.name}

    def start(self, *words, **options):
        """Start a command of xmcbench, as the leader of a process group."""
        command = [sys.executable, "-m", "xmcbench", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True, **pipes)

    def run(self, *words):
        """Run a command of xmcbench to its end."""
        process = self.start(*words)
        out, err = process.communicate(timeout=1500)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def processes(self):
        """Every process that was started in this world and is still there."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("FAULTS_WORLD") == self.name and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def left_processes(self, patience_s=10.0):
        """The processes that are still there after a while: what was killed takes a moment to go."""
        deadline = time.monotonic() + patience_s
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [process.as_dict(["pid", "ppid", "cmdline"]) for process in found]

    def left_files(self):
        """Temporary files and folders, and claims, that are still there."""
        cache = Path(self.environment.get("XMCBENCH_CACHE", ""))
        places = [self.runs, *([cache] if cache.is_relative_to(self.folder) else [])]
        patterns = ("*.tmp", "*.claim", "*.claim.turn")
        left = [path for place in places for pattern in patterns for path in place.rglob(pattern)]
        return [*self.temporary.glob("xmcbench-*"), *left]
