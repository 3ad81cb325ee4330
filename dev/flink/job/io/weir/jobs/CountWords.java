package io.weir.jobs;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Counts words in keyed state and, when its input ends, writes every count of its key groups into the result folder.
 * An operator rather than a rich function, because {@code open()} of an operator is the same from Flink 1.18 to 2.3.
 */
final class CountWords extends AbstractStreamOperator<Long>
        implements OneInputStreamOperator<String, Long>, BoundedOneInput {
    private static final String STATE = "counts";

    private final Pace pace;
    private final String resultFolder;
    private transient ValueState<Long> counts;

    /** {@code resultFolder} may be null: then nothing is written. */
    CountWords(double wordsPerSecond, String resultFolder) {
        this.pace = new Pace(wordsPerSecond);
        this.resultFolder = resultFolder;
    }

    @Override
    public void open() throws Exception {
        super.open();
        counts = getRuntimeContext().getState(new ValueStateDescriptor<>(STATE, Types.LONG));
        if (resultFolder != null) {
            ResultFolder.removeParts(Path.of(resultFolder), subtask(), parallelism());
        }
    }

    @Override
    public void processElement(StreamRecord<String> record) throws Exception {
        pace.spendOneRecord();
        Long before = counts.value();
        long now = before == null ? 1 : before + 1;
        counts.update(now);
        output.collect(record.replace(now));
    }

    @Override
    public void endInput() throws Exception {
        if (resultFolder == null) {
            return;
        }
        StringBuilder text = new StringBuilder("# parallelism " + parallelism() + "\n");
        for (Object word : keysOfThisSubtask()) {
            setCurrentKey(word);
            text.append(word).append(' ').append(counts.value()).append('\n');
        }
        ResultFolder.writePart(Path.of(resultFolder), subtask(), attempt(), text.toString());
    }

    private List<Object> keysOfThisSubtask() {
        try (Stream<Object> keys = getKeyedStateBackend().getKeys(STATE, VoidNamespace.INSTANCE)) {
            return keys.collect(Collectors.toList());
        }
    }

    private int subtask() {
        return task().getIndexOfThisSubtask();
    }

    private int attempt() {
        return task().getAttemptNumber();
    }

    private int parallelism() {
        return task().getNumberOfParallelSubtasks();
    }

    /** The runtime context has no method for these that is in both Flink 1.18 and 2.3. */
    private TaskInfo task() {
        return getContainingTask().getEnvironment().getTaskInfo();
    }
}
