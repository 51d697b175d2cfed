from contextvars import copy_context

from server.caller import find_owner, set_caller


def test_each_request_is_on_its_own_where_there_are_no_keys():
    assert find_owner() != find_owner()


def test_requests_of_one_key_have_one_owner():
    def ask(key: bytes) -> object:
        set_caller(key)
        return find_owner()

    assert copy_context().run(ask, b"a") == copy_context().run(ask, b"a")
    assert copy_context().run(ask, b"a") != copy_context().run(ask, b"b")
