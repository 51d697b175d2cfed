from contextvars import copy_context

from server.caller import find_owner, is_background, set_caller


def test_each_request_is_on_its_own_where_there_are_no_keys():
    assert find_owner() != find_owner()


def test_requests_of_one_key_have_one_owner():
    def ask(key: bytes) -> object:
        set_caller(key)
        return find_owner()

    assert copy_context().run(ask, b"a") == copy_context().run(ask, b"a")
    assert copy_context().run(ask, b"a") != copy_context().run(ask, b"b")


def test_only_what_is_set_so_is_in_the_background():
    def ask(background: bool) -> bool:
        set_caller("a", background=background)
        return is_background()

    assert not is_background()
    assert copy_context().run(ask, True)
    assert not copy_context().run(ask, False)
    assert not is_background()
