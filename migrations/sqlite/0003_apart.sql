-- Services as processes of their own: an outbox and positions for each part of the work that one of several instances does, where
-- there was one for all of it.

UPDATE outbox SET owner = 'metrics-00' WHERE owner = 'analyzer';
UPDATE outbox SET owner = 'actuator/' || SUBSTR(message_key, 1, INSTR(message_key, '/') - 1) WHERE owner = 'actuator';

INSERT INTO consumer_positions (consumer, log, log_part, incarnation, position, epoch)
SELECT 'actuator/' || c.cluster, p.log, p.log_part, p.incarnation, p.position, 0
FROM consumer_positions p, (SELECT DISTINCT cluster FROM jobs) c WHERE p.consumer = 'actuator';
DELETE FROM consumer_positions WHERE consumer = 'actuator';
