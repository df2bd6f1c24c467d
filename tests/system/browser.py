# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window: Debian's Chromium and its driver."""
import os
import shutil
import sys
import tempfile

import registries
from meted import PATIENCE, Skipped

try:
    from selenium import webdriver
except ImportError:  # Debian's, with another Python in front of it
    sys.path.append("/usr/lib/python3/dist-packages")
    from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

AXE = "4.14.1"
WIDTHS = {"small": (320, 568), "phone": (390, 844), "normal": (1280, 800), "wide": (1920, 1080)}


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mete-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking",
                     "--no-first-run", "--disable-component-update", f"--user-data-dir={self.folder}/profile"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(PATIENCE)

    def size(self, name, theme="light"):
        width, height = WIDTHS[name]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme},
                                                                                 {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, url):
        self.driver.get(url)

    def run(self, script, *values):
        return self.driver.execute_script(script, *values)

    def wait(self, condition, otherwise="it never happened"):
        try:
            return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.1).until(lambda driver: driver.execute_script(f"return {condition}"))
        except TimeoutException:
            raise AssertionError(f"{otherwise}: {condition}; {self.said()}") from None

    def view(self, fragment):
        self.run("location.hash = arguments[0]", fragment)
        self.wait(f"location.hash === '{fragment}' && document.querySelector('#view h1') !== null")

    def keys(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def said(self):
        """On its console: errors, and what the policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def picture(self, path):
        self.driver.save_screenshot(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)


def axe():
    """The audit's script, from npm's registry, once."""
    kept = os.path.expanduser(f"~/.cache/mete/axe-core-{AXE}.js")
    if not os.path.exists(kept):
        with tempfile.TemporaryDirectory() as folder:
            try:
                registries.run(["npm", "pack", "--silent", f"axe-core@{AXE}"], 120, cwd=folder)
            except registries.Unavailable as error:
                raise Skipped(f"axe-core cannot be had ({error}); connect the machine to npm's registry") from None
            shutil.unpack_archive(f"{folder}/axe-core-{AXE}.tgz", folder)
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            shutil.copy(f"{folder}/package/axe.min.js", kept + ".new")
            os.replace(kept + ".new", kept)
    with open(kept, encoding="utf-8") as file:
        return file.read()
