"""The table of budgets at the end of .ci/run."""

from helpers import budgets

XML = """<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2">
<testcase classname="tests.test_a" name="test_quick" time="0.5"/>
<testcase classname="tests.test_{name}" name="test_long[x]" time="{time}"/>
<testcase classname="tests.test_a" name="test_none" time="0.0"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def write(folder, name, seconds, longest):
    (folder / f"{name}.xml").write_text(XML.format(name=name, time=longest))
    (folder / f"{name}.time").write_text(f"{seconds} {2 * seconds} 1.0\n")


def test_tiers_their_budgets_and_the_slowest_tests(tmp_path, capsys):
    write(tmp_path, "fast", 200, 3.25)
    write(tmp_path, "mesh", 501, 9.5)
    write(tmp_path, "slow", 100, 70)
    budgets.main(tmp_path, 1200)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["fast", "3", "1", "200", "400"]
    assert lines[2].split() == ["mesh", "3", "1", "501", "1002", "700"]
    assert lines[4].split() == ["all", "9", "1200", "1200"]
    assert lines[5] == "OVER BUDGET: fast + mesh took 701 s, 700 s are allowed"
    assert lines[6] == "the slowest:" and lines[7].split() == ["70.0", "s", "tests.test_slow::test_long[x]"]
    assert not any("slow +" in line or ".ci/run" in line for line in lines[:7])


def test_a_run_that_takes_too_long_says_so(tmp_path, capsys):
    write(tmp_path, "fast", 100, 1)
    budgets.main(tmp_path, 1201)
    assert "OVER BUDGET: .ci/run took 1201 s, 1200 s are allowed" in capsys.readouterr().out
