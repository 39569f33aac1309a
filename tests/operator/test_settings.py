"""Settings from flags, environment and file: who wins, what is refused and how it is said."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from dgdr_retune.controllers import SWEEPER_COMMAND
from dgdr_retune.operator import Settings, SettingsError
from dgdr_retune.operator._arguments import parser, printed, settings_from

REQUIRED = {
    "--operator-namespace": "dgdr-retune",
    "--sweeper-image": "registry.example/sweeper:1",
    "--publisher-image": "registry.example/publisher:1",
    "--runtime-image": "registry.example:5000/org/vllm-runtime:1.6.1",
}


def settings(*flags: str, environment: Mapping[str, str] | None = None, required: bool = True) -> Settings:
    given = [word for pair in REQUIRED.items() for word in pair] if required else []
    return settings_from(parser().parse_args([*given, *flags]), environment or {})


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return str(path)


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    path = file(tmp_path, "{history_limit: 1, workers: 1, num_gpus_per_node: 1}")
    environment = {"DGDR_RETUNE_HISTORY_LIMIT": "2", "DGDR_RETUNE_WORKERS": "2"}
    made = settings("--config", path, "--history-limit", "3", environment=environment)
    assert (made.history_limit, made.workers, made.num_gpus_per_node) == (3, 2, 1)


def test_what_is_printed_is_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    made = settings(
        "--sweeper-command",
        '["a", "b"]',
        "--start-deadline-seconds",
        "1800",
        "--http-port",
        "off",
        "--webhook-certificate",
        "/c",
        "--webhook-key",
        "/k",
    )
    path = file(tmp_path, printed(made))
    assert settings_from(parser().parse_args(["--config", path]), {}) == made


def test_every_setting_is_a_flag_that_help_explains() -> None:
    text = " ".join(parser().format_help().split())
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')} VALUE" in text
        assert field.description
        assert " ".join(field.description.split())[:60] in text


def test_the_defaults_are_on_loopback_and_without_a_deadline() -> None:
    made = settings()
    assert (made.http_host, made.webhook_host) == ("127.0.0.1", "127.0.0.1")
    assert (made.start_deadline_seconds, made.namespace) == (None, "")
    assert made.configuration().sweeper_command == (*SWEEPER_COMMAND, "--engine", "built-in")


def test_the_controllers_get_what_the_settings_say() -> None:
    made = settings(
        "--engine",
        "dynamo",
        "--sweeper-cpu-limit",
        "16",
        "--jobs-per-namespace",
        "3",
        "--start-deadline-seconds",
        "60",
        "--snapshot-interval-seconds",
        "0",
    ).configuration()
    assert made.sweeper_command[-2:] == ("--engine", "dynamo")
    assert (made.sweeper_resources.cpu_limit, made.jobs_per_namespace, made.start_deadline_s) == ("16", 3, 60)
    assert made.snapshot_interval_s == 0
    own = settings("--sweeper-command", json.dumps(["my", "$(DGDR_RETUNE_INPUT)"])).configuration()
    assert own.sweeper_command == ("my", "$(DGDR_RETUNE_INPUT)")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--history-limit", "0"], "--history-limit: history_limit: Input should be greater than or equal to 1"),
        (["--sweeper-command", "python -m x"], "a command is a JSON list"),
        (["--sweeper-command", "[]"], "at least 1 item"),
        (["--runtime-image", "registry.example:5000/runtime"], "its tag must be a version"),
        (["--runtime-image", "registry.example/runtime:latest"], "its tag must be a version"),
        (["--retry-period-seconds", "6"], "renew_deadline_seconds"),
        (["--renew-deadline-seconds", "15"], "renew_deadline_seconds"),
        (["--webhook-key", "/k"], "give both, or neither"),
        (["--namespace", "A"], "--namespace: namespace: "),
        (["--sweeper-memory-limit", "8 GB"], "--sweeper-memory-limit"),
        (["--http-port", "70000"], "--http-port"),
        (["--start-deadline-seconds", "nan"], "--start-deadline-seconds"),
    ],
)
def test_a_fault_names_its_setting(flags: list[str], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(*flags)
    assert message in str(refused.value)
    assert refused.value.reason == "InvalidSettings"


def test_all_faults_are_named_at_once_with_where_they_came_from(tmp_path: Path) -> None:
    path = file(tmp_path, "{workers: many, colour: red}")
    with pytest.raises(SettingsError) as refused:
        settings("--config", path, environment={"DGDR_RETUNE_HISTORY_LIMIT": "x"}, required=False)
    lines = str(refused.value).splitlines()
    assert "--operator-namespace is required: give it, or set DGDR_RETUNE_OPERATOR_NAMESPACE" in lines
    assert any(line.startswith("DGDR_RETUNE_HISTORY_LIMIT: history_limit: ") for line in lines)
    assert any(line.startswith(f"{path}: workers: ") for line in lines)
    assert f"{path}: colour: no such setting; see --help" in lines


@pytest.mark.parametrize("text", ["[1, 2]", "{1: 2}", "a: [", "a: !!python/object:x {}", "\x00", "x" * 2_000_000])
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(SettingsError, match=r"settings\.yaml"):
        settings("--config", path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        settings("--config", str(tmp_path / "none"))


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert settings("--config", file(tmp_path, "# nothing\n")) == settings()


def test_the_printed_settings_are_yaml_of_every_setting() -> None:
    assert list(yaml.safe_load(printed(settings()))) == list(Settings.model_fields)
