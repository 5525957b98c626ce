"""`session-schedule acp`: talk to any coding agent that speaks ACP, and it keeps reminders."""
