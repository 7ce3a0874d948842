"""Runs the statements of docs/moving-in.md against PostgreSQL, with the tables that the migrations of Noticed 3, Action Push Native and
Rpush 9 make, and imports what they export.

The tables have the columns that are asked for and those beside them that could be mistaken for one; the types are Rails' for
PostgreSQL: a `datetime` is a timestamp without a zone, in UTC.
"""
import os
import re

import pytest

from e2e import ROOT
from e2e.harness import Campanile, stores, temporary_folder
from e2e.harness.postgres import PostgreSQL, server_folder

DOCUMENT = ROOT / "docs/moving-in.md"
TABLES = """
CREATE TABLE action_push_native_devices (id bigserial PRIMARY KEY, name varchar, platform varchar NOT NULL, token varchar NOT NULL,
    owner_type varchar, owner_id bigint, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);
INSERT INTO action_push_native_devices (name, platform, token, owner_type, owner_id, created_at, updated_at) VALUES
    ('iPhone, "old"', 'apple', 'AB01', 'User', 17, '2026-01-01 08:00', '2026-02-01 08:00:00.123456'),
    ('iPhone', 'apple', 'AB01', 'User', 18, '2026-01-01 08:00', '2026-03-01 08:00:00.5'),
    ('Pixel', 'google', 'fcm:x,y', 'User', 17, '2026-01-01 08:00', '2026-02-01 08:00'),
    ('of nobody', 'google', 'fcm:z', NULL, NULL, '2026-01-01 08:00', '2026-02-01 08:00'),
    ('of a team', 'google', 'fcm:t', 'Team', 1, '2026-01-01 08:00', '2026-02-01 08:00');

CREATE TABLE devices (user_id bigint NOT NULL, token varchar NOT NULL, platform varchar NOT NULL, updated_at timestamp(6) NOT NULL);
INSERT INTO devices VALUES (17, 'cd01', 'ios', '2026-02-01 08:00'), (17, 'cd02', 'ios', '2026-02-01 08:00'),
    (18, 'cd03', 'ios', '2026-02-01 08:00'), (18, 'fcm:a', 'android', '2026-02-01 08:00');
CREATE TABLE rpush_apps (id bigserial PRIMARY KEY, name varchar NOT NULL, environment varchar, type varchar NOT NULL);
INSERT INTO rpush_apps (name, environment, type) VALUES ('shop', 'production', 'Rpush::Client::ActiveRecord::Apnsp8::App'),
    ('shop', 'development', 'Rpush::Client::ActiveRecord::Apnsp8::App'), ('shop', NULL, 'Rpush::Client::ActiveRecord::Fcm::App');
CREATE TABLE rpush_feedback (id bigserial PRIMARY KEY, device_token varchar, failed_at timestamp NOT NULL, app_id integer);
INSERT INTO rpush_feedback (device_token, failed_at, app_id) VALUES ('cd02', '2026-03-01 08:00', 1), ('cd01', '2026-01-01 08:00', 1);
CREATE TABLE rpush_notifications (id bigserial PRIMARY KEY, badge integer, device_token varchar, alert text, notification text, data text, category varchar,
    delivered boolean NOT NULL DEFAULT false, alert_is_json boolean NOT NULL DEFAULT false, app_id integer NOT NULL,
    type varchar NOT NULL DEFAULT 'Rpush::Client::ActiveRecord::Apnsp8::Notification', created_at timestamp NOT NULL);
INSERT INTO rpush_notifications (device_token, alert, data, delivered, alert_is_json, app_id, created_at) VALUES
    ('cd01', 'Your order shipped', '{"url":"/orders/1"}', true, false, 1, '2026-01-05 08:00:00.1'),
    ('cd02', 'Your order shipped', '{"url":"/orders/1"}', true, false, 1, '2026-01-05 08:00:00.2'),
    ('cd03', '{"title":"Hello","body":"Two' || E'\\\\n' || 'lines, \\"quoted\\""}', NULL, true, true, 2, '2026-01-06 08:00'),
    ('cd03', 'failed', NULL, false, false, 2, '2026-01-07 08:00'), ('gone', 'nobody''s', NULL, true, false, 1, '2026-01-07 08:00'),
    ('cd01', 'after the release', NULL, true, false, 1, '2026-12-01 08:00'), ('cd01', NULL, '{"refresh":true}', true, false, 1, '2026-01-08 08:00');
INSERT INTO rpush_notifications (device_token, notification, data, delivered, app_id, created_at, type) SELECT 'fcm:a', notification, data, true, 3,
    created_at::timestamp, 'Rpush::Client::ActiveRecord::Fcm::Notification' FROM (VALUES
    ('{"title":"Hello","body":"Two' || E'\\\\n' || 'lines, \\"quoted\\""}', NULL, '2026-01-06 08:00:00.9'),
    ('{"title":"Your order","body":"It shipped","image":"https://example.com/1.png"}', '{"url":"/orders/3"}', '2026-01-07 08:00'),
    ('{"body":"Only a text"}', NULL, '2026-01-08 08:00'), (NULL, '{"refresh":"1"}', '2026-01-09 08:00')) fcm (notification, data, created_at);

CREATE TABLE noticed_events (id bigserial PRIMARY KEY, type varchar, record_type varchar, record_id bigint, params jsonb,
    notifications_count integer, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);
CREATE TABLE noticed_notifications (id bigserial PRIMARY KEY, type varchar, event_id bigint NOT NULL, recipient_type varchar NOT NULL,
    recipient_id bigint NOT NULL, read_at timestamp(6), seen_at timestamp(6), created_at timestamp(6) NOT NULL,
    updated_at timestamp(6) NOT NULL);
INSERT INTO noticed_events (type, params, created_at, updated_at) VALUES
    ('OrderNotifier', '{"title":"Shipped","body":"Two\\nlines, \\"quoted\\"","url":"/orders/42?tab=parcels","_aj_symbol_keys":["title"]}',
     '2026-01-05 08:00', '2026-01-05 08:00'),
    ('OrderNotifier', '{"title":"Paid"}', '2026-01-04 08:00', '2026-01-04 08:00');
INSERT INTO noticed_notifications (type, event_id, recipient_type, recipient_id, read_at, seen_at, created_at, updated_at) VALUES
    ('OrderNotifier::Notification', 1, 'User', 17, NULL, '2026-01-05 09:00', '2026-01-05 08:00:00.0004', '2026-01-05 08:00'),
    ('OrderNotifier::Notification', 2, 'User', 17, '2026-01-05 08:00', NULL, '2026-01-05 08:00:00.0001', '2026-01-05 08:00'),
    ('OrderNotifier::Notification', 1, 'User', 18, NULL, NULL, '2026-01-05 08:00:01.5', '2026-01-05 08:00'),
    ('OrderNotifier::Notification', 1, 'User', 18, NULL, NULL, '2026-12-01 08:00', '2026-12-01 08:00'),
    ('OrderNotifier::Notification', 1, 'Team', 1, NULL, NULL, '2026-01-05 08:00', '2026-01-05 08:00');
"""

pytestmark = pytest.mark.needs("psql")


def first_table(block):
    found = re.search(r"FROM (\w+(?: \w\b)?)", block)
    return found and found[1]


def statement(table):
    """The document's statement for PostgreSQL that reads a table first."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = [block for block in blocks if block.startswith("\\copy") and first_table(block) == table]
    assert len(found) == 1, f"{len(found)} statements read {table}"
    return found[0]


@pytest.fixture(scope="module")
def postgresql():
    with server_folder("campanile-moving-") as folder:
        server = PostgreSQL(folder, host="", durable=False)
        server.create()
        try:
            server.execute(TABLES)
            yield server
        finally:
            server.stop("immediate")


@pytest.fixture
def imported(binary, postgresql):
    """Exports by a statement of the document, imports, and gives what is in the database then, as texts."""
    with temporary_folder("campanile-moved-") as folder:
        campanile = Campanile(binary, stores.new_database(folder), folder)

        def run(kind, table, query):
            postgresql.execute(statement(table))
            path = os.path.join(postgresql.folder, f"{kind}.csv")
            campanile.command("import", kind, path)
            said = campanile.command("import", kind, path)[2]
            assert said.startswith("Imported 0"), said
            return [tuple(row) for row in stores.rows(campanile.database, query)]
        yield run


DEVICES = ("SELECT user_id, token, platform, environment, last_registered_at FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id "
           "ORDER BY token")
ENTRIES = ("SELECT user_id, title, body, deep_link, created_at, read_at FROM notifications n JOIN inboxes i ON i.id = n.inbox_id "
           "ORDER BY user_id, n.id")
JANUARY_5, LATER = "1767600000000", "1767600001500"  # 08:00 UTC


def test_devices_of_action_push_native(imported):
    """Apple's are told in lower case; the newest row of a token counts; devices of nobody and of others than users stay away."""
    february, march = "1769932800000", "1772352000500"
    assert imported("devices", "action_push_native_devices", DEVICES) == [
        ("18", "ab01", "ios", "production", march), ("17", "fcm:x,y", "android", "production", february)]


def test_devices_pushed_to_with_rpush(imported):
    """A token that was refused after its last registration stays away, and the environment is that of the app it was pushed with."""
    found = imported("devices", "devices d", DEVICES)
    assert [row[:4] for row in found] == [
        ("17", "cd01", "ios", "production"), ("18", "cd03", "ios", "sandbox"), ("18", "fcm:a", "android", "production")]


def test_inboxes_of_noticed(imported):
    """In the order of their creation, also within a millisecond; texts and links as they are, read as it was."""
    body = 'Two\nlines, "quoted"'
    assert imported("notifications", "noticed_notifications n", ENTRIES) == [
        ("17", "Paid", "", "", JANUARY_5, JANUARY_5), ("17", "Shipped", body, "/orders/42?tab=parcels", JANUARY_5, ""),
        ("18", "Shipped", body, "/orders/42?tab=parcels", LATER, "")]


def test_pushes_of_rpush(imported):
    """One for a user, whatever number of devices, Apple's and Google's; all read; what failed, what shows nothing, what leads to nobody and
    what came later stays away."""
    found = imported("notifications", "rpush_notifications n", ENTRIES)
    assert [row[:4] for row in found] == [
        ("17", "Your order shipped", "Your order shipped", "/orders/1"), ("18", "Hello", 'Two\nlines, "quoted"', ""),
        ("18", "Your order", "It shipped", "/orders/3"), ("18", "Only a text", "Only a text", "")]
    assert all(created == read for *_, created, read in found)
