-- A large `payload` of a notification, which keeps in its row what a list shows of it. Beside the rows, as `notification_data` is.
CREATE TABLE notification_payloads (
    notification_id BLOB PRIMARY KEY,
    payload         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
