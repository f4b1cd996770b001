"""Values for options of `muster groups offsets reset`: partitions, times, offsets and files. Wrong values are refused."""
# ruff: noqa: E501  # a table is read by its rows

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cli import main
from muster.cli.groups import option_values
from muster.cli.groups.option_values import Chosen, Planned
from muster.cli.parser import joined
from muster.coordinator.config.checks import ConfigError

RESET = ["groups", "offsets", "reset"]
HERE = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("word", "chosen"),
    [
        ("orders", Chosen("orders", None)),
        ("orders:0", Chosen("orders", (0,))),
        ("orders:0,1, 4-6,1", Chosen("orders", (0, 1, 4, 5, 6))),
        ("a.b_c-d:12", Chosen("a.b_c-d", (12,))),
    ],
)
def test_a_topic_option_with_partitions_is_parsed(word: str, chosen: Chosen) -> None:
    assert option_values.chosen_topic(word) == chosen


@pytest.mark.parametrize("word", ["", ":1", "t:", "t:x", "t:-1", "t:3-1", "t:0-9999999", "t:1,", "t:٣"])
def test_a_topic_option_without_valid_partitions_is_refused(word: str) -> None:
    with pytest.raises(ConfigError) as said:
        option_values.chosen_topic(word)
    assert str(said.value) == f"--topic '{word}': TOPIC was expected, or TOPIC:0,1,2 for some of its partitions"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P7D", 604_800_000),
        ("P1DT1H1M1S", 90_061_000),
        ("pt0.25s", 250),
        ("PT1.5S", 1_500),
        ("-PT1M", -60_000),
        ("500ms", 500),
        ("30m", 1_800_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_durations_of_offset_resets_are_parsed(text: str, ms: int) -> None:
    assert option_values.duration_ms("--by-duration", text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "soon", "1", "P1M", "PT1X", "1.5h", "PT1H1H"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="a duration such as PT1H30M, P7D, 30m or 2h was expected"):
        option_values.duration_ms("--by-duration", text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T00:00:01.500Z", 1_500),
        ("1970-01-01T02:00:01+02:00", 1_000),
        ("1970-01-01T02:00:01.250+0200", 1_250),
        ("1970-01-01T00:01", 60_000),
    ],
)
def test_times_of_offset_resets_are_parsed(text: str, ms: int) -> None:
    assert option_values.time_ms("--to-datetime", text) == ms


@pytest.mark.parametrize("text", ["", "now", "2026-01-31", "2026-01-31 08:00", "2026-13-31T08:00:00", "T", "12T"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="a time such as 2026-01-31T08:00"):
        option_values.time_ms("--to-datetime", text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("+7", 7), ("9223372036854775807", (1 << 63) - 1)])
def test_offsets_and_shifts_are_parsed(text: str, number: int) -> None:
    assert option_values.whole_number("--to-offset", text) == number
    assert option_values.whole_number("--shift-by", f"-{number}", -(1 << 63)) == -number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "9223372036854775808", "1_000"])
def test_an_invalid_offset_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="an offset, 0 or more, was expected"):
        option_values.whole_number("--to-offset", text)


def test_an_offset_plan_of_kafkas_tool_is_read_and_written(tmp_path: Path) -> None:
    """Lines with groups as for several groups, lines without as for one; quoted as Kafka's tool does."""
    file = tmp_path / "plan.csv"
    file.write_text('"a, b","orders",0,5\n\n orders , 1 , 7 \n')
    assert option_values.read_plan(file) == [Planned("a, b", "orders", 0, 5), Planned(None, "orders", 1, 7)]
    rows = [("a, b", ("orders", 0), 5), ("c", ("pay", 1), 7)]
    written = option_values.as_csv(rows, with_group=True)
    file.write_text(written)
    assert [(one.group, (one.topic, one.partition), one.offset) for one in option_values.read_plan(file)] == rows
    assert option_values.as_csv(rows, with_group=False) == "orders,0,5\npay,1,7\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", " is empty: lines of topic,partition,offset were expected"),
        ("orders,0\n", ", line 1: 'orders,0': topic,partition,offset or group,topic,partition,offset was expected"),
        ("a,0,1\na,b,0,1,2\n", ", line 2: 'a,b,0,1,2': topic,partition,offset or"),
        ("a,0,-1\n", ", line 1: 'a,0,-1': topic,partition,offset or"),
        ("a,0,1\na,0,2\n", ", line 2: a-0 stands there twice"),
        ('a,"0\n', " is no CSV: unexpected end of data"),
    ],
)
def test_a_file_that_is_not_an_offset_plan_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as said:
        option_values.read_plan(file)
    assert str(said.value).startswith(f"--from-file {file}{sentence}")


def test_an_unreadable_offset_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        option_values.read_plan(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is no text in UTF-8"):
        option_values.read_plan(tmp_path / "bytes")


ALL = "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, --from-file"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["describe"], "a GROUP or --all-groups was expected, one of them; none was given"),
        (["describe", "g", "--all-groups"], "a GROUP or --all-groups was expected, one of them; both were given"),
        (["offsets"], "a GROUP or --all-groups was expected, one of them; none was given"),
        (["offsets", "g", "--all-groups"], "a GROUP or --all-groups was expected, one of them; both were given"),
        (["offsets", "g", "--json", "--export"], "--json and --export are two forms of the same; give one"),
        (["offsets", "reset", "--to-latest", "--topic", "t"], "a GROUP or --all-groups was expected, one of them; none"),
        (["offsets", "reset", "g", "--topic", "t"], f"one of {ALL} was expected; none was given"),
        (["offsets", "reset", "g", "--topic", "t", "--to-latest", "--to-offset", "1"], f"one of {ALL} was expected; 2 were"),
        (["offsets", "reset", "g", "--to-latest"], "--topic TOPIC or --all-topics was expected, one of them; none was"),
        (["offsets", "reset", "g", "--to-latest", "--topic", "t", "--all-topics"], "--topic TOPIC or --all-topics was"),
        (["offsets", "reset", "g", "--topic", "t", "--to-offset", "x"], "--to-offset x: an offset, 0 or more, was"),
        (["offsets", "reset", "g", "--topic", "t", "--shift-by", "x"], "--shift-by x: a whole number, such as 10 or -10,"),
        (["offsets", "reset", "g", "--topic", "t", "--by-duration", "x"], "--by-duration x: a duration such as PT1H30M,"),
        (["offsets", "reset", "g", "--topic", "t", "--to-datetime", "x"], "--to-datetime x: a time such as 2026-01-31T"),
        (["offsets", "reset", "g", "--from-file", "/none"], "--from-file /none cannot be read: No such file or directory"),
        (["offsets", "reset", "g", "--from-file", "/none", "--topic", "t"], "--from-file names the partitions: leave"),
        (["offsets", "reset", "g", "h", "--from-file", "FILE"], "--from-file FILE: lines of group,topic,partition,offset"),
        (["offsets", "delete", "g"], "--topic TOPIC or --all-topics was expected, one of them; none was given"),
        (["delete"], "a GROUP or --all-groups was expected, one of them; none was given"),
        (["remove-member", "g"], "--member-id ID, --instance-id ID or --all-members was expected"),
        (["remove-member", "g", "--all-members", "--member-id", "m"], "--member-id ID, --instance-id ID or --all-members"),
        (["list", "--state", "Foo"], "--state 'Foo': one of Stable, Empty, PreparingRebalance, CompletingRebalance, Ass"),
        (["list", "--state", "Stable,Emtpy"], "--state 'Emtpy': one of Stable, Empty, PreparingRebalance, CompletingReb"),
        (["list", "--type", "clasic"], "--type 'clasic': one of classic, consumer, share, streams was expected; did you"),
    ],
)  # fmt: skip
def test_wrong_group_options_are_refused_before_a_server_is_asked(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("orders,0,5\n")
    given = [str(file) if one == "FILE" else one for one in arguments]
    assert main(["groups", *given, *HERE]) == 2
    said = capsys.readouterr().err
    words = 2 if arguments[:2] in (["offsets", "reset"], ["offsets", "delete"]) else 1
    assert said.startswith(f"muster groups {' '.join(arguments[:words])}: {sentence.replace('FILE', str(file))}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--state", "stable,EMPTY"], ["--type", "Share"]])
def test_states_and_types_are_accepted_in_any_case(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "list", *arguments, *HERE]) == 1
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err


def test_an_unknown_transaction_state_is_refused_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transactions", "list", "--state", "ongoin", *HERE]) == 2
    assert capsys.readouterr().err.endswith("PrepareEpochFence was expected; did you mean Ongoing?\n")


@pytest.mark.parametrize("how", [["--execute", "--dry-run"]])
def test_dry_run_and_execute_exclude_each_other(
    how: list[str], capsys: pytest.CaptureFixture[str], refused: Callable[[list[str]], str]
) -> None:
    assert "--dry-run: not allowed with argument --execute" in refused([*RESET, "g", "--to-latest", *how])


@pytest.mark.parametrize(
    ("words", "joined_words"),
    [
        ("groups offsets reset g --json", ["groups", "offsets reset", "g", "--json"]),
        ("groups offsets --json --bootstrap-server a:1 delete g", ["groups", "offsets delete", "--json",
                                                                   "--bootstrap-server", "a:1", "g"]),
        ("groups offsets --bootstrap-server reset g", ["groups", "offsets", "--bootstrap-server", "reset", "g"]),
        ("groups offsets -- reset", ["groups", "offsets", "--", "reset"]),
        ("groups offsets g reset", ["groups", "offsets", "g", "reset"]),
        ("groups offsets --bootstrap-server", ["groups", "offsets", "--bootstrap-server"]),
        ("help groups offsets reset", ["groups", "offsets reset", "--help"]),
        ("help", ["--help"]),
        ("", []),
    ],
)  # fmt: skip
def test_two_words_are_joined_to_one_command(words: str, joined_words: list[str]) -> None:
    assert joined(words.split()) == joined_words


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    def run(arguments: list[str]) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["group", "list"], "muster: there is no command 'group'; did you mean groups? See muster --help"),
        (["sevre"], "muster: there is no command 'sevre'; did you mean serve? See muster --help"),
        (["describe", "g"], "muster: there is no command 'describe'; did you mean muster clients describe, muster groups describe or muster trans"),
        (["zzz"], "muster: there is no command 'zzz'; there are serve, health, version, groups,"),
        (["groups"], "muster groups: a command was expected: list, describe, offsets, offsets reset, offsets delete,"),
        (["groups", "reset", "g"], "muster groups: there is no command 'reset'; did you mean muster groups offsets reset?"),
        (["groups", "lst"], "muster groups: there is no command 'lst'; did you mean list? See muster groups --help"),
        (["groups", "list", "--jsn"], "muster groups list: unrecognized arguments: --jsn; did you mean --json? See"),
        (["serve", "--inmemory"], "muster serve: unrecognized arguments: --inmemory; did you mean --in-memory? See"),
        (["serve", "--lisen", ":1"], "muster serve: unrecognized arguments: --lisen :1; did you mean --listen? See"),
        (["groups", "describe", "--group", "g", "h"], "muster groups describe: unrecognized arguments: --group; a group"),
        (["groups", "offsets", "reset", "g", "--zzz"], "muster groups offsets reset: unrecognized arguments: --zzz; see"),
        (["serve", "--log-level", "infos"], "muster serve: argument --log-level: invalid choice: 'infos' (expected debug,"),
        (["groups", "remove-member", "g", "--member-id", "-x"], "muster groups remove-member: argument --member-id: a value was expected; one that begins with - is written --member-id=VALUE; see muster"),
        (["nodes", "stop", "two"], "muster nodes stop: argument ID: 'two' is no whole number; see muster nodes stop --help"),
        (["version", "x"], "muster version: unrecognized arguments: x; see muster version --help"),
    ],
)  # fmt: skip
def test_a_mistyped_command_is_refused_with_a_suggestion(
    arguments: list[str], sentence: str, refused: Callable[[list[str]], str]
) -> None:
    said = refused(arguments)
    assert said.startswith(sentence)
    assert said.count("\n") == 1
