from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from server.http.caller import as_caller, find_owner, find_request_id, find_salt, set_caller


def test_each_request_is_on_its_own_where_there_are_no_keys():
    assert find_owner() != find_owner()


def test_requests_of_one_key_have_one_owner():
    def ask(key: bytes) -> object:
        set_caller(key)
        return find_owner()

    assert copy_context().run(ask, b"a") == copy_context().run(ask, b"a")
    assert copy_context().run(ask, b"a") != copy_context().run(ask, b"b")


def test_salts_of_keys_and_of_clients_are_never_the_same():
    def salt(key: bytes | None, given: str | None, is_shared: bool = False) -> str | None:
        set_caller(key)
        return find_salt(given, is_shared=is_shared)

    found = {
        copy_context().run(salt, key, given)
        for key in (b"a", b"b")
        for given in (None, "a", "b", "key b'a'", "salt a")
    }
    assert len(found) == 6  # two of keys, and four of clients, whatever their key
    assert copy_context().run(salt, None, None) is None
    assert copy_context().run(salt, b"a", None, True) is None
    assert copy_context().run(salt, b"a", "team", True) == copy_context().run(salt, b"b", "team")


def test_another_thread_works_for_the_same_caller():
    def look() -> tuple[object, str | None, str]:
        return find_owner(), find_salt(None, is_shared=False), find_request_id()

    def ask() -> tuple[object, str | None, str]:
        set_caller(b"a", request_id="req_1")
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(as_caller(look)).result()
            assert found == look()
            assert threads.submit(find_request_id).result() == ""  # nothing is left there
        return found

    owner, _, request_id = copy_context().run(ask)
    assert (owner, request_id) == (b"a", "req_1")
