"""What a catalogue states is not believed where it leads to files of the user."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.problems import StoreProblem
from rooflens.analysis.store.remote.address import Lake
from rooflens.analysis.store.remote.catalogue import Catalogue


@pytest.mark.parametrize("path", ["/", "/etc/", "//", "HOME", "HOME/..", "relative/"])
def test_a_data_path_that_holds_the_users_own_files_is_refused(path: str, tmp_path: Path) -> None:
    catalogue = Catalogue(Lake(str(tmp_path / "c"), postgres=False), tmp_path / "tmp")
    with duckdb.connect(str(tmp_path / "c")) as con:
        con.execute("CREATE TABLE ducklake_metadata(key VARCHAR, value VARCHAR)")
        con.execute("INSERT INTO ducklake_metadata VALUES ('data_path', ?)", [path.replace("HOME", str(Path.home()))])
    with pytest.raises(StoreProblem, match="more than a shared store"):
        catalogue.data()
