"""ImageLocality: a pod starts sooner where its images are."""

from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.kube.node import NodeObject, NodeWithImages
from bayplan.policies.default_profile.image_locality import ImageLocality
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_pod, run_policy

MIB = 1024**2


def node(name: str, **images: int) -> NodeWithImages:
    listed = [{"names": [image, f"{image}@sha256:0"], "sizeBytes": size} for image, size in images.items()]
    return msgspec.convert({"metadata": {"name": name}, "status": {"images": listed}}, NodeWithImages)


def pod(*images: str, init: tuple[str, ...] = (), volumes: tuple[str, ...] = ()) -> Any:
    return make_pod(
        spec={
            "containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)],
            "initContainers": [{"name": f"i{n}", "image": image} for n, image in enumerate(init)],
            "volumes": [{"name": f"v{n}", "image": {"reference": image}} for n, image in enumerate(volumes)],
        }
    )


def scores(wanted: Any, *nodes: NodeObject) -> dict[str, float]:
    return run_policy(ImageLocality, wanted, Snapshot.build(nodes, [])).scores


EMPTY = node("empty")


@pytest.mark.parametrize(
    ("wanted", "score"),
    [
        # 100 * (140 - 23) / (1000 - 23), whole: half of 280 MiB, since one of two nodes has it.
        pytest.param(pod("app:v1"), 11, id="by how many nodes have it"),
        pytest.param(pod("other:v1"), 0, id="another image"),
        pytest.param(pod("app"), 0, id="no tag is the tag latest"),
        pytest.param(pod("plain"), 11, id="and that is found"),
        pytest.param(pod("registry:5000/plain"), 11, id="a port is no tag"),
        pytest.param(pod("app:v1", "app:v1"), 12, id="two containers of one image count twice"),
        pytest.param(pod("app:v1", "other:v1"), 5, id="more containers, more to be had"),
        pytest.param(pod("other:v1", init=("app:v1",)), 5, id="init containers count"),
        pytest.param(pod("other:v1", volumes=("app:v1",)), 11, id="volumes add, and no more is to be had"),
        pytest.param(pod("huge:v1"), 100, id="never more than 100"),
        pytest.param(pod("tiny:v1"), 0, id="what is small does not matter"),
        pytest.param(pod("app:v1@sha256:0"), 11, id="by digest"),
    ],
)
def test_score(wanted: Any, score: float) -> None:
    full = node(
        "full",
        **{
            "app:v1": 280 * MIB,
            "plain:latest": 280 * MIB,
            "registry:5000/plain:latest": 280 * MIB,
            "huge:v1": 9000 * MIB,
            "tiny:v1": 40 * MIB,
        },
    )

    assert scores(wanted, full, EMPTY) == {"full": score, "empty": 0}


def test_what_every_node_has_makes_no_difference() -> None:
    have = [node(name, **{"app:v1": 512 * MIB}) for name in ("one", "two", "three")]

    assert set(scores(pod("app:v1"), *have).values()) == {50}


def test_a_node_whose_images_nobody_read_has_none() -> None:
    plain = msgspec.convert({"metadata": {"name": "plain"}}, NodeObject)

    assert scores(pod("app:v1"), plain, node("full", **{"app:v1": 2000 * MIB})) == {"plain": 0, "full": 100}


def test_all_nodes_of_the_cluster_share_an_image_not_only_those_that_passed() -> None:
    cluster = Snapshot.build([node("one", **{"app:v1": 1000 * MIB}), EMPTY, node("other")], [])
    part = cluster.nodes.take(cluster.find(["one", "other"]))

    assert np.array_equal(ImageLocality().there(pod("app:v1"), part, cluster), [31, 0])


def test_where_there_are_no_nodes_there_is_nothing_to_score() -> None:
    assert scores(pod("web")) == {}
