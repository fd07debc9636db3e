"""The page in the browser: a scene with a gizmo, sliders, and the answers of two models beside it (viser)."""

import threading
import time
from html import escape
from typing import Any

import numpy as np
import viser

from vnt.view.cloud_scene import CloudScene
from vnt.view.content import CLOUD, TRACK, Content
from vnt.view.levels import Latest, Stillness
from vnt.view.look_panel import LookPanel
from vnt.view.samples import read_upload
from vnt.view.studio import CloudStudio, TrackStudio
from vnt.view.track_scene import TrackScene
from vnt.view.turning import Matrix, from_angles, from_quaternion, random_matrix, to_angles, to_quaternion
from vnt.view.uploads import MOST_UPLOADED, limit_uploads

GIZMO = "/turned"


class Page:
    """A server with one page, whose state all its visitors share.

    Args:
        content: what there is to look at.
        host: who may come: 127.0.0.1 is this machine alone.
        port: where; 0 takes any that is free.
        start: the name of the sample to begin with.
        most_uploaded: bytes of a file that a visitor may send.
    """

    def __init__(
        self,
        content: Content,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        start: str | None = None,
        most_uploaded: int = MOST_UPLOADED,
    ):
        self.content = content
        self.rotation: Matrix = np.eye(3)
        self.milliseconds: list[float] = []
        self.server = viser.ViserServer(host=host, port=port, label="vnt view", verbose=False)
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
        self.server.initial_camera.position, self.server.initial_camera.look_at = (1.9, -1.4, 1.0), (0.0, 0.0, 0.0)
        limit_uploads(self.server, most_uploaded)
        self._kinds = [k for k, v in ((CLOUD, content.clouds), (TRACK, content.tracks)) if v]
        if not self._kinds:
            raise ValueError("there is nothing to look at")
        self._kind = self._kinds[0]
        self.scene: CloudScene | TrackScene | None = None
        self.lock = threading.RLock()  # scenes come and go while the worker and timers draw
        self._stillness = Stillness(lambda: self._detail(False), lambda: self._detail(True), self.lock)
        self._worker = Latest(self._update, lambda error: self.say(str(error), is_error=True))
        self._build_panel()
        if start is None:
            self._choose()
        else:
            self.open(TRACK if start in content.tracks else CLOUD, start)
        self.server.on_client_connect(self._greet)

    @property
    def address(self) -> str:
        """To open in a browser, on this machine."""
        host = self.server.get_host()
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.server.get_port()}"

    @property
    def error(self) -> Exception | None:
        """What went wrong last while answering, if anything did."""
        return self._worker.error

    def stop(self) -> None:
        """Close the server."""
        self.server.stop()

    def _build_panel(self) -> None:
        gui = self.server.gui
        with gui.add_folder("What"):
            self._scene_kind = gui.add_dropdown("scene", self._kinds, initial_value=self._kind)
            self._sample = gui.add_dropdown("sample", self._names())
            self._models = gui.add_dropdown("models", self.content.pairs_for(self._kind))
            self._upload = gui.add_upload_button(
                "Open a file…", hint="A cloud in any format that vnt reads, or a CSV table of tracks."
            )
            self._message = gui.add_html("")
        with gui.add_folder("Turn"):
            self._angles = [
                gui.add_slider(f"about {axis}", min=-180.0, max=180.0, step=1.0, initial_value=0.0) for axis in "xyz"
            ]
            self._buttons = gui.add_button_group("", ("at random", "as it was"))
        with gui.add_folder("Answers"):
            self._answers = gui.add_html("")
        self.look = LookPanel(gui, self._recolor, self.refresh)
        self.gizmo = self.server.scene.add_transform_controls(
            GIZMO, scale=1.6, disable_axes=True, disable_sliders=True, line_width=3.0, depth_test=False, opacity=0.9
        )
        self._scene_kind.on_update(self._kind_chosen)
        self._sample.on_update(lambda event: self._by_visitor(event, self._choose))
        self._models.on_update(lambda event: self._by_visitor(event, self._choose))
        self._upload.on_upload(self._uploaded)
        self.gizmo.on_update(lambda event: self.turn(from_quaternion(event.target.wxyz), moves_gizmo=False))
        for slider in self._angles:
            slider.on_update(lambda event: self._by_visitor(event, self._turn_by_sliders))
        self._buttons.on_click(self._turn_by_button)

    def _by_visitor(self, event: Any, do: Any) -> None:
        """Only for what a visitor did: values that we set ourselves come back as events too, without a client."""
        if event.client is None:
            return
        try:
            do()
        except ValueError as error:
            self.say(str(error), is_error=True)

    def _names(self) -> list[str]:
        return list(self.content.clouds if self._kind == CLOUD else self.content.tracks)

    def _kind_chosen(self, event: Any) -> None:
        if event.client is None or self._scene_kind.value == self._kind:
            return
        self._kind = self._scene_kind.value
        self._sample.options = self._names()
        self._models.options = self.content.pairs_for(self._kind)
        self._by_visitor(event, self._choose)

    def _choose(self) -> None:
        """Show the chosen sample to the chosen models."""
        pair = self.content.pairs[self._models.value]
        cloud, up = self.content.clouds.get(self._sample.value, (None, ""))
        if self._kind == CLOUD and cloud is not None:
            studio = CloudStudio(pair, cloud)
        else:
            track = self.content.tracks[self._sample.value]
            studio = TrackStudio(pair, track.past, track.future)
        with self.lock, self.server.atomic():
            if self.scene is not None:
                self.scene.remove()
            self.scene = None
            is_cloud = isinstance(studio, CloudStudio)
            self.scene = CloudScene(self, studio, up) if is_cloud else TrackScene(self, studio)
            self.turn(np.eye(3))

    def turn(self, R: Matrix, *, moves_gizmo: bool = True, moves_sliders: bool = True) -> None:
        """Turn what is shown, and ask the models again."""
        self.rotation = R
        if moves_gizmo:
            self.gizmo.wxyz = to_quaternion(R)
        if moves_sliders:
            for slider, degrees in zip(self._angles, to_angles(R), strict=True):
                slider.value = float(round(degrees))
        self._stillness.moved()
        self._worker.ask()

    def _recolor(self) -> None:
        with self.lock:
            if isinstance(self.scene, CloudScene):
                self.scene.recolor()
        self.refresh()

    def refresh(self) -> None:
        """Ask the models again for the rotation that there is."""
        self._worker.ask()

    def _turn_by_sliders(self) -> None:
        x, y, z = (slider.value for slider in self._angles)
        self.turn(from_angles(x, y, z), moves_sliders=False)

    def _turn_by_button(self, event: Any) -> None:
        is_random = event.target.value == "at random"
        self.turn(random_matrix(np.random.default_rng()) if is_random else np.eye(3))

    def _update(self) -> None:
        """The newest rotation's answers, on the worker's thread."""
        scene, R = self.scene, self.rotation
        if scene is None:
            return
        begun = time.perf_counter()
        scene.compute(R)
        milliseconds = 1e3 * (time.perf_counter() - begun)
        self.milliseconds = [*self.milliseconds[-99:], milliseconds]
        with self.lock, self.server.atomic():
            if scene is self.scene:
                self._answers.content = scene.draw(milliseconds)

    def _detail(self, is_still: bool) -> None:
        with self.lock:
            if self.scene is not None:
                self.scene.detail(is_still)

    def _greet(self, client: viser.ClientHandle) -> None:
        client.camera.on_update(lambda _: self._stillness.moved())

    def _uploaded(self, event: Any) -> None:
        """Show a visitor's file, or say why it cannot be shown."""
        file = event.target.value
        try:
            kind, names = self.content.add(read_upload(file.name, file.content, self.content.pairs.values()))
            self.open(kind, names[0])
        except (ValueError, KeyError, OSError, ModuleNotFoundError) as error:
            self.say(str(error), is_error=True)

    def open(self, kind: str, name: str) -> None:
        """Show a sample of a kind."""
        if kind not in self._kinds:
            self._kinds.append(kind)
            self._scene_kind.options = self._kinds
        if kind != self._kind:
            self._kind = self._scene_kind.value = kind
            self._models.options = self.content.pairs_for(kind)
        self._sample.options = self._names()
        self._sample.value = name
        if kind == CLOUD and "ModelNet40" in self.content.pairs:
            self._models.value = "ModelNet40"  # which knows more of the world than the built-in shapes do
        self._choose()
        self.say(f"{name}: {len(self.content.clouds[name][0]):,} points" if kind == CLOUD else name)

    def say(self, words: str, *, is_error: bool = False) -> None:
        """A line below the upload button."""
        color = "#c00" if is_error else "inherit"
        self._message.content = (
            f'<div id="vnt-message" style="padding:0 .6em;font-size:12px;color:{color}">{escape(words)}</div>'
        )
