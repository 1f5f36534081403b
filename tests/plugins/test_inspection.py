import pytest

from xmcbench import Method
from xmcbench.errors import PluginError
from xmcbench.plugins import loading
from xmcbench.plugins.inspection import Answer, Inspection, Plugin, Question

ENDS = """
    import os
    from pathlib import Path
    from xmcbench import Method

    class Ends(Method):
        step: int = 0
        log: str = ""
        def describe(self):
            with Path(self.log).open("a") as log:
                log.write(f"{self.step} ")
            if self.step in (1, 3):
                os._exit(3)
            return f"step {self.step}"
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


def test_a_question_that_ends_the_process_does_not_lose_the_others(plugin, tmp_path):
    path, log = plugin(ENDS), tmp_path / "log"
    questions = [Question("ends", "describe", {"step": step, "log": str(log)}) for step in range(5)]
    inspection = Inspection(Plugin(file=str(path)), str(path))
    log.unlink(missing_ok=True)
    inspection.ask(questions)
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]
    inspection.ask(questions)
    for step, question in enumerate(questions):
        answer = inspection.answer(question)
        if step in (1, 3):
            with pytest.raises(PluginError, match="ends cannot be inspected: .*exit code 3"):
                answer.unwrap()
        else:
            assert answer.unwrap() == f"step {step}"
    assert log.read_text().split() == ["0", "1", "2", "3", "4"], "nothing is asked twice"


def test_an_interrupt_ends_a_plan_and_not_a_process_that_looks_at_a_plugin(plugin, monkeypatch):
    class Interrupted(Method):
        def describe(self):
            raise KeyboardInterrupt

        def fit(self, raw_X, raw_Y, pairs=None): ...

        def predict(self, raw_X, k=100): ...

    question = Question("ends", "describe", {})
    with pytest.raises(KeyboardInterrupt):
        Answer.of(Interrupted, question)
    inspection = Inspection(Plugin(file=str(plugin(ENDS.replace("os._exit(3)", "raise KeyboardInterrupt")))), "here")
    answer = inspection.answer(Question("ends", "describe", {"step": 1, "log": "/dev/null"}))
    assert answer.message == "ends cannot be inspected: KeyboardInterrupt"

    def load(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", load)
    with pytest.raises(KeyboardInterrupt):
        loading.from_point(loading.point("tfidf"))
