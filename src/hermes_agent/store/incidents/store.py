"""Incidents, signals, notices, checks and services: a part of the store."""

from hermes_agent.store.engine.operations import StorePart, read, write
from hermes_agent.store.incidents import incidents as incident_rows
from hermes_agent.store.incidents import ingest


class IncidentStore(StorePart):
    take = write(ingest.take_signal)
    incident = read(incident_rows.incident)
    incidents = read(incident_rows.incidents)
    change = write(incident_rows.change_incident)
    timeline = read(incident_rows.timeline)
    signals = read(ingest.signals)
    firing = read(ingest.firing)
    notices = read(incident_rows.notices)
    notice_sent = write(incident_rows.notice_sent)
    notice_failed = write(incident_rows.notice_failed)
    check_states = read(incident_rows.check_states)
    save_check = write(incident_rows.save_check)
    drop_check = write(incident_rows.drop_check)
    check_hours = read(incident_rows.check_hours)
    log_cursors = read(incident_rows.log_cursors)
    save_log_cursor = write(incident_rows.save_log_cursor)
    services = read(incident_rows.services)
    learn_service = write(incident_rows.learn_service)
