"""Says what a model would say, so that the quickstart needs no key."""

from agents.testing import ScriptedModel, assistant_message, function_call


def scripted_model() -> ScriptedModel:
    """A model that sets a reminder for a second from now, and says its text when it is back."""
    create = {"prompt": "stretch", "after_seconds": 1}
    return ScriptedModel(
        [
            [function_call("schedule_create", create, call_id="call_1")],
            [assistant_message("I will remind you.")],
            [assistant_message("It is time to stretch.")],
        ]
    )
