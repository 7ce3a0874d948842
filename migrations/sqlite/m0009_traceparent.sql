-- The trace that a delivery belongs to (W3C Trace Context), as the producer named it when it created the notification.
ALTER TABLE deliveries ADD COLUMN traceparent TEXT;
