from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from server.http.caller import as_caller, find_owner, find_salt, is_background, set_caller


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


def test_only_what_is_set_so_is_in_the_background():
    def ask(background: bool) -> bool:
        set_caller("a", background=background)
        return is_background()

    assert not is_background()
    assert copy_context().run(ask, True)
    assert not copy_context().run(ask, False)
    assert not is_background()


def test_another_thread_works_for_the_same_caller():
    def look() -> tuple[object, str | None, bool]:
        return find_owner(), find_salt(None, is_shared=False), is_background()

    def ask() -> tuple[object, str | None, bool]:
        set_caller(b"a", owner="batches", background=True)
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(as_caller(look)).result()
            assert found == look()
            assert not threads.submit(is_background).result()  # nothing is left there
        return found

    assert copy_context().run(ask)[0] == "batches"


def test_batches_take_turns_together_and_have_the_caches_of_their_keys():
    def ask(key: bytes | None) -> tuple[object, str | None]:
        set_caller(key, owner="batches", background=True)
        return find_owner(), find_salt(None, is_shared=False)

    def ask_live(key: bytes | None) -> str | None:
        set_caller(key)
        return find_salt(None, is_shared=False)

    for key in (b"a", b"b", None):
        assert copy_context().run(ask, key) == ("batches", copy_context().run(ask_live, key))
