-- What came to nothing is found by its state. Of accepted deliveries, which nearly all are, nothing stands in the index.
CREATE INDEX deliveries_unsuccessful ON deliveries (state, notification_id, device_id)
WHERE state = 'rejected' OR state = 'failed' OR state = 'gone' OR state = 'withheld';
