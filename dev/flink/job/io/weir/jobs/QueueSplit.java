package io.weir.jobs;

import java.nio.ByteBuffer;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** One partition of the virtual queue: when the queue began, and how many of the partition's lines were read. */
final class QueueSplit implements SourceSplit {
    final int id;
    final long startMs;
    long offset;

    QueueSplit(int id, long startMs, long offset) {
        this.id = id;
        this.startMs = startMs;
        this.offset = offset;
    }

    QueueSplit copy() {
        return new QueueSplit(id, startMs, offset);
    }

    @Override
    public String splitId() {
        return "split-" + id;
    }

    /** Twenty bytes in a fixed order. */
    static final class Serializer implements SimpleVersionedSerializer<QueueSplit> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(QueueSplit split) {
            return ByteBuffer.allocate(20).putInt(split.id).putLong(split.startMs).putLong(split.offset).array();
        }

        @Override
        public QueueSplit deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new QueueSplit(buffer.getInt(), buffer.getLong(), buffer.getLong());
        }
    }
}
