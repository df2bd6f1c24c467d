# SPDX-License-Identifier: Apache-2.0
"""A kubelet of our own: fake_kubelet.c, whose words it speaks."""
import json
import os
import subprocess
import threading

from meted import PATIENCE, until

RESOURCE = "mete.dev/gpu"


class Refused(Exception):
    def __init__(self, line):
        super().__init__(line)
        code, self.sentence = (line.split(" ", 2) + [""])[1:3]
        self.code = int(code)


class Kubelet:
    """fake_kubelet, its words and what happens to it; and the checkpoint file."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.plugins = folder + "/device-plugins"
        for name in ("device-plugins", "pod-resources"):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        self.entries, self.checkpointed = {}, True
        self.tags = iter(range(1 << 30))
        self.start()

    def start(self):
        self.answers, self.happened, self.known = {}, [], set()
        self.lock = threading.Condition()
        self.process = subprocess.Popen([self.program, self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.hear("ready")

    def read(self):
        for line in self.process.stdout:
            tag, _, rest = line.rstrip("\n").partition(" ")
            with self.lock:
                if tag == "*":
                    self.happened.append(rest)
                    if rest.startswith(("known ", "registered ")):
                        self.known.add(rest.split()[1])
                else:
                    self.answers[tag] = rest
                self.lock.notify_all()
        with self.lock:
            self.answers = None
            self.lock.notify_all()

    def wait(self, what):
        with self.lock:
            assert self.lock.wait_for(lambda: self.answers is None or what(), PATIENCE), f"never: {self.happened[-20:]}"
            assert self.answers is not None, "the kubelet has ended"
            return what()

    def hear(self, start):
        """The next event, or one that has happened and was not heard."""
        def there():
            return next((line for line in self.happened if line.startswith(start)), None)
        line = self.wait(there)
        with self.lock:
            del self.happened[:self.happened.index(line) + 1]
        return line

    def begin(self, verb, *words):
        tag = f"t{next(self.tags)}"
        self.process.stdin.write(" ".join([tag, verb, *map(str, words)]) + "\n")
        self.process.stdin.flush()
        return tag

    def answer(self, tag):
        self.wait(lambda: tag in self.answers)
        with self.lock:
            answer = self.answers.pop(tag)
        if answer.startswith("error "):
            raise Refused(answer)
        return answer

    def answered(self, tag):
        with self.lock:
            return tag in self.answers

    def ask(self, verb, *words):
        return self.answer(self.begin(verb, *words))

    def turn(self, resource):
        """Listens to that resource alone, once it has been registered. meted registers what nobody listens to again after ten seconds."""
        self.wait(lambda: resource in self.known)
        self.ask("turn", resource)

    def devices(self):
        return dict(word.rsplit("=", 1) for word in self.ask("list").split())

    def await_devices(self, are):
        return until(lambda: (now := self.devices()) and are(now) and now, lambda: f"the devices are {self.devices()}")

    def refusal(self, tag):
        try:
            return "not refused: " + self.answer(tag)
        except Refused as refused:
            return refused.sentence

    def write_checkpoint(self, text=None):
        rows = [{"PodUID": uid, "ContainerName": container, "ResourceName": RESOURCE, "DeviceIDs": {"-1": ids}, "AllocResp": ""}
                for (uid, container), ids in self.entries.items()]
        path = self.plugins + "/kubelet_internal_checkpoint"
        with open(path + ".tmp", "w") as file:
            file.write(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}) if text is None else text)
        os.rename(path + ".tmp", path)

    def give(self, pod, container, ids, listed=True):
        """The steps after Allocate: the allocation is written down, and shown to clients that ask."""
        if self.checkpointed:
            self.entries[pod.uid, container] = list(ids)
            self.write_checkpoint()
        if listed:
            self.ask("pod", pod.namespace, pod.name, container, *ids)

    def take_back(self, pod, container):
        self.entries.pop((pod.uid, container), None)
        if self.checkpointed:
            self.write_checkpoint()
        self.ask("pod", pod.namespace, pod.name, container)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            assert self.process.wait(timeout=PATIENCE) == 0
