import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log import MalformedCheckpoint, checkpoints
from tests.coordinator.log.support import GOLDEN

KAFKA = GOLDEN / "kafka-log"


def test_kafkas_checkpoint_files_are_read() -> None:
    name = checkpoints.RECOVERY_POINTS
    data = (KAFKA / name).read_bytes()
    assert checkpoints.decode_offsets(name, data) == {
        ("stamped", 0): 30,
        ("mixed", 0): 318,
        ("__transaction_state", 0): 10,
    }
    assert checkpoints.decode_offsets("", (KAFKA / checkpoints.START_OFFSETS).read_bytes()) == {}
    epochs = (KAFKA / "mixed-0" / checkpoints.LEADER_EPOCHS).read_bytes()
    assert checkpoints.decode_epochs("", epochs) == [(0, 0)]
    assert checkpoints.encode_epochs([(0, 0)]) == epochs
    metadata = (KAFKA / "mixed-0" / checkpoints.PARTITION_METADATA).read_bytes()
    topic_id = checkpoints.decode_topic_id("", metadata)
    assert checkpoints.encode_uuid(topic_id) == "lwC2rat2QFeuPg04uP3aYQ"
    assert checkpoints.encode_topic_id(topic_id).strip() == metadata.strip()
    properties = checkpoints.decode_properties("", (KAFKA / checkpoints.META_PROPERTIES).read_bytes())
    assert properties["node.id"] == "1"
    assert properties["version"] == "1"
    assert sorted(properties) == ["cluster.id", "directory.id", "node.id", "version"]


@given(st.dictionaries(st.tuples(st.sampled_from(["a", "b.c", "d-1"]), st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_encoded_offsets_are_decoded_again(offsets: dict[tuple[str, int], int]) -> None:
    assert checkpoints.decode_offsets("", checkpoints.encode_offsets(offsets)) == offsets


@given(st.binary(min_size=16, max_size=16))
def test_encoded_uuids_are_decoded_again(topic_id: bytes) -> None:
    text = checkpoints.encode_uuid(topic_id)
    assert len(text) == 22
    assert checkpoints.decode_uuid(text) == topic_id


def test_a_uuid_has_kafkas_text() -> None:
    # Kafka's Uuid.METADATA_TOPIC_ID is (0, 1)
    assert checkpoints.encode_uuid(uuid.UUID(int=1).bytes) == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_properties_take_comments_and_both_signs() -> None:
    text = b"# a comment\n! another\n\nversion: 0\nname = a=b\n"
    assert checkpoints.decode_properties("", text) == {"version": "0", "name": "a=b"}
    assert checkpoints.decode_properties("", checkpoints.encode_properties({"a": "1", "b": ""})) == {"a": "1", "b": ""}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nt 0 5\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt x 5\n",
        b"0\n1\nt 0 -5\n",
        b"\xff\xfe",
        b"0\n1\n\n",
    ],
)
def test_malformed_offset_checkpoints_name_the_file(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match="some/file"):
        checkpoints.decode_offsets("some/file", data)


@pytest.mark.parametrize("data", [b"0\n1\n5\n", b"0\n1\na b\n", b"0\n1\n1 2 3\n"])
def test_malformed_epoch_checkpoints_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match="some/file"):
        checkpoints.decode_epochs("some/file", data)


@pytest.mark.parametrize(
    "data",
    [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", b"version: 0\n", b"version: 0\ntopic_id: AA\n", b"x\n"],
)
def test_malformed_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match="some/file"):
        checkpoints.decode_topic_id("some/file", data)
