"""A database that a model may ask and not change. HONE_SQLITE names it: a file of SQLite, or a script (.sql), which is run in memory."""
import os
import sqlite3
import time
import urllib.parse

SECONDS, MOST_ROWS, MOST_CELL, MOST_QUERY = 5, 100, 500, 10000

_open = {}  # (process, path) -> connection


def _allowed(action, first, second, database, source):
    """SQLite's authorizer: reading, and functions that touch no files."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, getattr(sqlite3, "SQLITE_RECURSIVE", 33)):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() not in ("load_extension", "readfile", "writefile", "edit", "zeroblob", "randomblob"):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and str(first).lower() in ("table_info", "table_list", "foreign_key_list", "index_list"):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _path():
    path = os.environ.get("HONE_SQLITE", "")
    if not path:
        raise ValueError("hone.tools.sqlite wants a database: HONE_SQLITE, in the environment of hone, names its file or a script (.sql)")
    if not os.path.isfile(path):
        raise ValueError(f"HONE_SQLITE names {path}, which is no file")
    return os.path.abspath(path)


def _connected():
    key = os.getpid(), _path()
    if key not in _open:
        path = key[1]
        if path.endswith(".sql"):
            connection = sqlite3.connect(":memory:")
            with open(path, encoding="utf-8") as file:
                connection.executescript(file.read())
        else:
            connection = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
        if hasattr(connection, "setlimit"):  # Python 3.11: no value may fill the memory
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10 << 20)
        connection.set_authorizer(_allowed)
        _open.clear()
        _open[key] = connection
    return _open[key]


def _check():
    connection = _connected()
    try:
        connection.execute("select name from sqlite_master").fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"HONE_SQLITE names {_path()}: {error}") from None
    finally:
        connection.close()
        _open.clear()


def _cell(value):
    text = "NULL" if value is None else f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
    text = text.replace("\n", " ").replace("|", "/")
    return text if len(text) <= MOST_CELL else text[:MOST_CELL] + "..."


def sqlite(query: str) -> str:
    """Asks the database with one SELECT statement in the language of SQLite. The database cannot be changed; its tables are in sqlite_master.

    Args:
        query: The statement, for example SELECT name, sql FROM sqlite_master.

    Returns:
        The rows as a table, at most 100 of them.
    """
    if len(query) > MOST_QUERY:
        raise ValueError(f"a statement has at most {MOST_QUERY} characters")
    connection, last = _connected(), time.monotonic() + SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > last, 10000)
    try:
        cursor = connection.execute(query)
        rows = cursor.fetchmany(MOST_ROWS + 1)
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise TimeoutError(f"the statement did not end within {SECONDS} s") from None
        raise
    finally:
        connection.set_progress_handler(None, 0)
    names = [column[0] for column in cursor.description or ()]
    if not names:
        raise ValueError("the statement gives no table: only SELECT is allowed")
    lines = [" | ".join(names), *(" | ".join(_cell(value) for value in row) for row in rows[:MOST_ROWS])]
    if len(rows) > MOST_ROWS:
        lines.append(f"... more than {MOST_ROWS} rows")
    return "\n".join(lines)


sqlite.hone_check = _check
