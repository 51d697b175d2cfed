"""The filters that the events of a turn pass before they are sent, in this order.

`checked_values` holds back a value until it is checked, `call_limits` a call until it differs from
calls that must not be repeated. After one of the `stop_texts`, nothing passes. `Transcript` puts
them one behind the other.
"""
