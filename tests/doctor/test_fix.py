"""``--fix``: what can be corrected is, once and for all, and everything else stays as it was written."""

from pathlib import Path

import pytest

from bayplan.doctor.files import UnreadableError, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.fix import Fixed, fix
from bayplan.doctor.setting import Version
from tests.doctor.cases import FOLDER, Case, every_case, read_case


def fixed(case: Case) -> Fixed:
    return fix(
        case.path.read_bytes(), case.examine, source=str(case.path), version=Version.read(case.version)
    )


@pytest.mark.parametrize("case", every_case())
def test_a_corrected_file_has_nothing_left_that_can_be_corrected(case: Case) -> None:
    text = fixed(case).text

    assert [finding.id for finding in case.examine(text) if finding.fixable] == []
    assert fix(text.encode(), case.examine, source="again", version=Version(36)).text == text


@pytest.mark.parametrize("case", every_case(converted=False))
def test_what_cannot_be_corrected_is_neither_lost_nor_added_to(case: Case) -> None:
    before = sorted(finding.id for finding in case.examine() if not finding.fixable)
    # An address that becomes one of HTTPS has no CA yet.
    shown = ["https-system-ca"] if case.path.name == "mismatch.yaml" else []

    after = sorted(finding.id for finding in case.examine(fixed(case).text))

    assert after == sorted(before + shown)


@pytest.mark.parametrize("case", every_case(converted=False))
def test_lines_with_nothing_wrong_and_all_comments_stay(case: Case) -> None:
    before, after = case.path.read_text().splitlines(), fixed(case).text.splitlines()
    comments = [line[line.index("#") :] for line in before if "#" in line]

    removed = [f for f in fixed(case).done if "is gone in v1" in f.what or "annotation" in f.what]
    if not removed:
        assert [line[line.index("#") :] for line in after if "#" in line] == comments
    assert len(after) >= len(before) - len(removed)
    if not any(finding.repairs for finding in case.examine()):
        assert after == before


def test_a_file_of_an_old_version_is_brought_to_the_new_one() -> None:
    text = fixed(read_case(FOLDER / "v1beta2.yaml")).text

    assert "kubescheduler.config.k8s.io/v1\n" in text
    assert "BindAddress" not in text
    assert "# Kept since the last upgrade." in text


def test_keys_are_put_where_a_person_would_look_for_them() -> None:
    text = fixed(read_case(FOLDER / "case-of-fields.yaml")).text

    assert text[text.index("extenders:") :] == (
        "extenders:\n"
        "- urlPrefix: https://10.0.0.9:8888\n"
        "  filterVerb: filter\n"
        "  preemptVerb: preempt\n"
        "  enableHTTPS: true      # HTTPS in capitals\n"
        "  nodeCacheCapable: true\n"
        "  ignorable: false\n"
    )


def test_a_mistyped_flag_is_corrected_and_then_what_it_means() -> None:
    done = fixed(read_case(FOLDER / "mistyped-flag.yaml"))

    assert [finding.id for finding in done.done] == ["bad-value", "full-nodes"]
    assert "  nodeCacheCapable: true\n" in done.text


def test_two_configurations_are_made_to_agree() -> None:
    text = fixed(read_case(FOLDER / "mismatch.yaml")).text

    assert "urlPrefix: https://127.0.0.1:8443/scheduler   # as it was last year\n" in text
    assert "  filterVerb: filter\n  bindVerb: bind\n" in text


def test_json_stays_json() -> None:
    text = fixed(read_case(FOLDER / "tutorial.json")).text

    entry = (
        '{"urlPrefix": "http://127.0.0.1:8888", "filterVerb": "filter", "nodeCacheCapable": true,'
        ' "preemptVerb": "preempt", "enableHTTPS": false, "ignorable": false, "bindVerb": "bind"}'
    )
    assert entry in text


def test_the_annotation_of_old_becomes_a_scheduler_name() -> None:
    text = fixed(read_case(FOLDER / "second-document.yaml")).text

    assert "    team: shop\nspec:\n  schedulerName: bayplan\n  containers:\n" in text


def test_a_policy_is_converted_and_what_is_lost_is_said() -> None:
    made = fixed(read_case(FOLDER / "policy.json"))

    assert made.remarks[0].endswith("converted from a Policy; comments are lost")
    assert any("RackLabels" in remark for remark in made.remarks)
    assert any("5 is 5ns" in remark for remark in made.remarks)
    assert "httpTimeout: 5s" in made.text


def test_a_key_that_is_merged_in_is_written_beside_the_merge(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: own}]\npercentageOfNodesToScore: 100\nextenders:\n"
        "- &first\n  urlPrefix: http://127.0.0.1:8888\n  prioritizeVerb: prioritize\n  weight: 0\n"
        "  nodeCacheCapable: true\n"
        "- <<: *first\n  urlPrefix: http://127.0.0.1:8889\n"
    )
    case = Case(tmp_path / "a.yaml", (), frozenset(), "1.36", None)

    made = fix(text.encode(), case.examine, source="a.yaml", version=Version(36))

    assert "- weight: 1\n  <<: *first\n" in made.text
    assert case.examine(made.text) == []


def test_lines_that_end_as_on_windows_still_do() -> None:
    case = read_case(FOLDER / "tutorial.yaml")
    text = case.path.read_text().replace("\n", "\r\n")

    made = fix(text.encode(), case.examine, source="a.yaml", version=Version(36)).text

    assert made.replace("\r\n", "\n") == fixed(case).text
    assert "\n" not in made.replace("\r\n", "")


def test_what_is_said_names_the_lines_of_the_file_that_was_given() -> None:
    case = read_case(FOLDER / "tutorial.yaml")
    text = case.path.read_text() + "\nfoo: 1\n"
    line = text.splitlines().index("foo: 1") + 1

    made = fix(text.encode(), case.examine, source=str(case.path), version=Version(36))

    assert made.text.splitlines().index("foo: 1") + 1 > line
    lines = {finding.id: finding.where.line for finding in (*made.done, *made.left)}
    assert lines["unknown-key"] == line
    before = {finding.id: finding.where.line for finding in case.examine(text)}
    assert lines == before


@pytest.mark.parametrize("case", every_case(converted=False))
def test_what_is_left_stands_where_it_stood(case: Case) -> None:
    before = {(finding.id, finding.where.line) for finding in case.examine()}

    made = fixed(case)

    # What only shows once something else is repaired stands where that stood.
    repaired = {finding.where.line for finding in made.done}
    assert {
        (finding.id, finding.where.line) for finding in made.left if finding.where.line not in repaired
    } <= before


def test_what_is_left_of_a_policy_stands_where_the_policy_has_it() -> None:
    case = read_case(FOLDER / "policy.json")
    before = {(finding.id, finding.where.line) for finding in case.examine()}

    made = fixed(case)

    told = {(f.id, f.where.line) for f in (*made.done, *made.left) if f.where.path.startswith("extenders[")}
    assert told
    assert told <= before


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    def nothing(_: str) -> list[Finding]:
        return []

    with pytest.raises(UnreadableError, match="not UTF-8"):
        fix(b"\xff\xfeabc", nothing, source="a.yaml", version=Version(36))


def test_a_policy_among_others_is_not_converted() -> None:
    text = (FOLDER / "policy.yaml").read_text() + "---\n" + (FOLDER / "clean-sidecar.yaml").read_text()
    assert len(read_text(text, source="a").policies) == 1

    with pytest.raises(UnreadableError, match="alone in its file"):
        fix(text.encode(), lambda _: [], source="a.yaml", version=Version(36))
