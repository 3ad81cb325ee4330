package io.weir.jobs;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A word count whose load and capacities are known exactly: source, (rebalance) flatmap, (hash) count with its sink.
 * The operators sleep instead of computing, so two cores carry dozens of instances.
 *
 * <pre>
 * --source queue|queue-nolag    with or without a pendingRecords gauge (queue)
 * --rate R                      lines per second offered from the start, all source instances together (100)
 * --rate-file F                 lines "epochMs rate" and at last "epochMs end"; may be appended to at run time
 * --splits N                    partitions of the queue (4)
 * --words W --keys K --hot F    words per line (1), distinct keys (997), share of words that are one hot key (0)
 * --source-cap, --flat-cap, --count-cap    records per second of ONE instance; 0 = free (0, 1000, 500)
 * --source-p, --flat-p, --count-p          initial parallelism (1)
 * --max-p N                     max parallelism; 0 = Flink's default (0)
 * --chained true                source and flatmap in one vertex, both at --source-p (false)
 * --line-bytes B                length of a line (100); a word has about 20
 * --result-dir D                counts and totals are written there when the input ends
 * --truth-dir D                 every split writes "epochMs read due" there each 250 ms
 * --name N                      name of the job (wordcount)
 * </pre>
 */
public final class WordCountJob {
    private WordCountJob() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        int maxParallelism = options.whole("max-p", 0);
        if (maxParallelism > 0) {
            env.setMaxParallelism(maxParallelism);
        }
        int sourceParallelism = options.whole("source-p", 1);
        int flatParallelism = options.whole("flat-p", 1);
        int countParallelism = options.whole("count-p", 1);
        boolean chained = options.flag("chained");
        String resultFolder = options.text("result-dir", null);

        DataStream<String> lines =
                env.fromSource(source(options, resultFolder), WatermarkStrategy.noWatermarks(), "source", Types.STRING)
                        .setParallelism(sourceParallelism);
        (chained ? lines : lines.rebalance())
                .flatMap(splitWords(options))
                .returns(Types.STRING)
                .name("flatmap")
                .setParallelism(chained ? sourceParallelism : flatParallelism)
                .keyBy(word -> word, Types.STRING)
                .transform("count", Types.LONG, new CountWords(options.number("count-cap", 500), resultFolder))
                .setParallelism(countParallelism)
                // Drops everything: no sink interface is the same in Flink 1.18 and 2.3.
                .filter(count -> false)
                .name("sink")
                .setParallelism(countParallelism);
        String name = options.text("name", "wordcount");
        options.refuseUnknown();
        env.execute(name);
    }

    private static QueueSource source(Options options, String resultFolder) {
        String kind = options.text("source", "queue");
        if (!kind.equals("queue") && !kind.equals("queue-nolag")) {
            throw new IllegalArgumentException("--source is queue or queue-nolag, not '" + kind + "'");
        }
        OfferedLoad load = new OfferedLoad(options.text("rate", "100"), options.text("rate-file", null));
        return new QueueSource(
                load,
                options.whole("splits", 4),
                kind.equals("queue"),
                options.number("source-cap", 0),
                options.whole("line-bytes", 100),
                options.text("truth-dir", null),
                resultFolder);
    }

    private static SplitWords splitWords(Options options) {
        Words words = new Words(options.whole("words", 1), options.whole("keys", 997), options.number("hot", 0));
        return new SplitWords(words, options.number("flat-cap", 1000));
    }
}
